"""Who says 'I'."""

import pytest

from opql_jax.corpus.documents import Mention
from opql_jax.corpus.speakers import first_persons, turns

MAIL = """From: Lena Fischer <lena@example.org>
To: Marco Rossi <marco@example.org>
Subject: Re: Supplier

I signed the contract.

> On Mon, 4 May 2026, Marco Rossi wrote:
> I prefer Weser Valves.
>> I never said so.

-----Original Message-----
From: Ute Brandl
Sent: Monday
My offer stands.
"""
TEXTS = {
    'chat': ('[12:03] ana: I did it\n[12:04] Bo Lee: thanks\n2024-01-02 12:05 - Eva: my cat, me',
        ['ana: I', 'Eva: my']),
    'dialogue': ('Eva Dahl: I signed it.\nNote: I think so.\nSummary: my view', ['Eva Dahl: I']),
    'mail': (MAIL, ['Lena Fischer: I', 'Marco Rossi: I', 'Ute Brandl: My']),
    'an answer below': ('On 4 May 2026 at 10:00, Bo Lee <m@x.org> wrote:\n> I see.\nI do not.',
        ['Bo Lee: I']),
    'stated names': ('My name is Hilde Aker. I was born in Narvik. My brother lives there.',
        ['Hilde Aker: My', 'Hilde Aker: I', 'Hilde Aker: My']),
    'a byline': ('By Ana Petrov\n\nI was born in Varna. "I am old," said he.', ['Ana Petrov: I']),
    'two authors': ('By Ana Petrov\n\nI was born. My name is Bo Lee.', []),
    'nobody': ('I met the people of Altona Pumps. We talked.', []),
    'no first person': ('From: Ana Petrov\nKing George I. ruled; World War I ended.', []),
}  # fmt: skip


def said(text, title=''):
    found = first_persons(text, turns(text, title))
    return [f'{text[turn.name_start : turn.name_end]}: {text[a:b]}' for a, b, turn in found]


@pytest.mark.parametrize('kind', TEXTS)
def test_the_first_person_is_the_one_who_speaks(kind):
    text, expected = TEXTS[kind]
    assert said(text) == expected


def test_a_title_states_the_author_of_a_text_that_names_it():
    found = said('Ana Petrov of Varna wrote this. I was ill.', 'Diary of Ana Petrov')
    assert found == ['Ana Petrov: I']
    assert said('I was ill.', 'Diary of Ana Petrov') == []


def test_no_place_is_in_a_name():
    text = 'By Ana Petrov\nI saw Malcolm I in Perth.'
    at = text.index('Malcolm')
    ((start, _, _),) = first_persons(text, turns(text), [Mention(at, at + len('Malcolm I'), 'I')])
    assert start == text.index('I saw')
