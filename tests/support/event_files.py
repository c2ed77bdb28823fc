"""Reads what a run wrote for TensorBoard, with the format's own protocol buffers."""

import collections

from tensorboardX.proto.event_pb2 import Event, SessionLog


def scalars(workdir):
    """{tag: {step: value}} of a folder's event files; of a step the last file counts."""
    found = collections.defaultdict(dict)
    for path in sorted(workdir.glob('events.out.tfevents.*')):
        data, start = path.read_bytes(), 0
        while start < len(data):  # length (8 bytes), its checksum (4), the event, its checksum (4)
            size = int.from_bytes(data[start : start + 8], 'little')
            event = Event.FromString(data[start + 12 : start + 12 + size])
            start += size + 16
            if event.session_log.status == SessionLog.START:
                for values in found.values():
                    for step in [step for step in values if step >= event.step]:
                        del values[step]
            for value in event.summary.value:
                found[value.tag][event.step] = value.simple_value
    return found
