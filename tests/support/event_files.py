"""Reads what a run wrote for TensorBoard, with the format's own protocol buffers."""

import collections

from tensorboardX.proto.event_pb2 import Event


def scalars(workdir):
    """{tag: {step: value}} of all event files of a folder."""
    found = collections.defaultdict(dict)
    for path in sorted(workdir.glob('events.out.tfevents.*')):
        data, start = path.read_bytes(), 0
        while start < len(data):  # length (8 bytes), its checksum (4), the event, its checksum (4)
            size = int.from_bytes(data[start : start + 8], 'little')
            event = Event.FromString(data[start + 12 : start + 12 + size])
            start += size + 16
            for value in event.summary.value:
                found[value.tag][event.step] = value.simple_value
    return found
