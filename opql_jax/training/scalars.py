"""The writer of TensorBoard's event files, without a wait for torch."""

import sys

# tensorboardX imports torch wherever it is installed, for kinds of data that are not written here. That was half of the time
# that training and evaluation took to start.
absent = sys.modules.setdefault('torch', None) is None
try:
    from tensorboardX import SummaryWriter
finally:
    if absent:
        del sys.modules['torch']

__all__ = ['SummaryWriter']
