"""The writer of TensorBoard's event files, without a wait for torch."""

import sys

# tensorboardX imports torch wherever it is installed, for annotations only, which took half of the start of training and
# evaluation. While this lasts, some hundredths of a second, another thread cannot import torch.
_hidden = 'torch' not in sys.modules
if _hidden:
    sys.modules['torch'] = None  # type: ignore[assignment]  # makes the import fail
try:
    from tensorboardX import SummaryWriter
finally:
    if _hidden and sys.modules.get('torch', _hidden) is None:
        del sys.modules['torch']

__all__ = ['SummaryWriter']
