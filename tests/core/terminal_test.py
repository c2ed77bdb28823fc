"""What may be written to a terminal: every character of Unicode, in streams, log lines and JSON."""

import json
import logging
import sys

from opql_jax.core.terminal import escaped_output, hanging, log_handler, one_line, printable

from dangerous import DANGEROUS, dangerous_in


def test_all_that_a_terminal_obeys_is_escaped_as_in_json():
    assert len(DANGEROUS) > 2000
    assert set('\x1b\r\x7f\x9b\u202e\u2028\ud800\U000e0041') <= set(DANGEROUS)
    for character in DANGEROUS:
        shown = printable(f'a{character}b')
        assert dangerous_in(shown) == set() and shown.isascii(), ascii(character)
        assert json.loads(f'"{shown}"') == f'a{character}b'


def test_all_other_characters_stay_as_they_are():
    # But deprecated format characters, which nobody writes.
    left_out = set(DANGEROUS) | set(map(chr, range(0x206A, 0x2070)))
    rest = ''.join(c for c in map(chr, range(sys.maxunicode + 1)) if c not in left_out)
    assert printable(rest) == rest and len(rest) > 1_000_000
    joined = 'نام\u200cها', '👩\u200d👩\u200d👧', 'שלום\u200f!', 'soft\u00adhyphen'
    for text in ('a\tb\r\nc\n', *joined, '\\u001b', 'Ærøskøbing “→”'):
        assert printable(text) == text


def test_a_name_stays_in_its_line_and_further_lines_of_a_sentence_are_indented():
    assert one_line('Kim\n     0.999  Lee\r\n\x1b') == r'Kim\n     0.999  Lee\u000d\n\u001b'
    assert hanging('He said\r\n     0.999  Lee\nso', 2) == 'He said\n       0.999  Lee\n  so'


def test_streams_are_escaped_while_the_context_lasts(capsys):
    before = sys.stdout, sys.stderr
    with escaped_output():
        print('\x1b[31m', 'ü')
        sys.stdout.writelines(['\x07', '\n'])
        print('\udcff', file=sys.stderr)
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ('\\u001b[31m ü\n\\u0007\n', '\\udcff\n')


def test_a_log_record_is_a_line_whatever_names_are_in_it_and_a_traceback_follows(capsys):
    log = logging.Logger('names')
    with escaped_output():
        log.addHandler(log_handler())
        log.warning('%s: left out', 'a\n12:00:00 all is well\x1b[2J')
        try:
            raise ValueError('\x1b[2J')
        except ValueError:
            log.exception('failed')
    first, failed, *traceback = capsys.readouterr().err.splitlines()
    assert first.endswith(r' a\n12:00:00 all is well\u001b[2J: left out')
    assert failed.endswith(' failed')
    assert traceback[0].startswith('Traceback') and traceback[-1] == r'ValueError: \u001b[2J'
