"""What the TPU compiler makes of a search at the size of the paper: 1.6 million entries over a
million entities, on eight chips.
"""

import tpu_compiler


@tpu_compiler.needs_tpu_compiler
def test_a_search_reads_its_keys_once_and_moves_none_of_them():
    found = tpu_compiler.compiled('search --queries 1')
    assert found['fits'] and found['loops'] == 0 and found['temporary_bytes'] < 1 << 20
    # No row of E, and no key: 32 scores and rows of each chip, and a query.
    assert sum(found['received_bytes'].values()) < 10_000
    assert found['roofline_seconds'] <= 1.3 * found['limit_seconds']
