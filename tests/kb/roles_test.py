"""Whether a text gives a name the role, kin or qualifier that is asked for."""

import re

import pytest

from opql_jax.kb.text.deeds import is_deed_of_another, is_owner_only
from opql_jax.kb.text.qualifiers import has_rival, is_named_beside, is_of_other_owner
from opql_jax.kb.text.roles import has_role, is_of_other_sex, may_hold

from examples import examples

FUNCTIONS = {of.__name__: of for of in (has_role, may_hold, has_rival, is_named_beside)}
FUNCTIONS |= {of.__name__: of for of in (is_of_other_owner, is_deed_of_another, is_owner_only)}
FUNCTIONS |= {is_of_other_sex.__name__: is_of_other_sex}

CLAIMS = """
    who does one thing has not done another: has_role
        Who wrote it? | Ann Bell | Low Tide was directed by Ann Bell. | no
        Who wrote it? | Ann Bell | written, directed by, and starring Ann Bell. | yes
        Who wrote it? | Ann Bell | directed by Joe Orr from a script of Ann Bell. | yes
        Who stars in it? | Cy Orr | directed by Ann Bell and stars Cy Orr. | yes
        Where was Ann Bell born? | Ann Bell | It was produced by Ann Bell. | yes
    a role belongs to the name that it stands with: may_hold
        Who is the mayor of it? | Ann Low | The mayor fell in, pulled out by Ann Low. | no
        Who is the mayor of it? | Ann Low | The mayor of Harl, Ann Low, fell in. | yes
        Who is the author? | Nia Orr | The book's author is the Welsh poet Nia Orr. | yes
        Who is his son? | Phoebe | He has no sons. His daughter Phoebe came. | no
        Who is his son? | Tom | His daughter Phoebe and his son Tom came. | yes
        Who is her husband? | Bo Orr | She married Bo Orr in 1900. | yes
        Who is his widow? | Bo Orr | Ann Low, the widow of Bo Orr, came. | no
        Who is the treasurer? | Bo Orr | Ann Low (treasurer), Bo Orr (secretary) came. | no
        Who is his mother? | Liv Orr | Bo was born to Ted Orr and his wife Liv Orr. | yes
        Who is director of it? | Bo Orr | Bo Orr is assistant director of it. | no
    what is said of the second is not said of the first: has_rival
        Who cast the second bell? | The third bell was cast by Bo. | yes
        Who cast the second bell? | The second and third bell were cast by Bo. | no
        When did the 4th Battalion leave? | It left on the 12th May 1915. | no
        How many came in 2014? | We had 300 visitors, fewer than in 2014. | yes
        Who is the current mayor? | The first mayor was Bo. | yes
        Who edited it earlier? | It is edited by Bo from now on. | yes
        Who is the deputy mayor? | The mayor is Bo. | yes
    whom a question names beside whom it asks for: is_named_beside
        Who was captain before Holt? | Rasmus Holt | yes
        Who replaced Rasmus Holt? | Jens Holt | no
        What is named after Ada Finch? | Ada Finch Museum | no
    what is of one owner is not of another: is_of_other_owner
        How much did the marrow of Ann Low weigh? | The marrow of Dodd weighed 9 kg. | yes
        How much did Ann Low's marrow weigh? | Dodd's and the marrow of Low weighed 9 kg. | no
        How old is the tower of the church? | The tower of the castle is 90 years old. | yes
        Who is director of the Lace Museum? | The director of the museum is Bo. | no
    a deed is of whom the sentence says it: is_deed_of_another
        Who paid for it? | Ann Low | Ann Low thanked the Rotary Club, which paid for it. | yes
        Who paid for it? | Rotary Club | Ann Low thanked the Rotary Club, which paid for it. | no
        Who opened Harl Mill? | Ann Low | Harl Mill opened with Ann Low in 1990. | no
        When did Bo Orr die? | 1931 | The President died in 1931. | no
        Who succeeded Bo Orr? | Ann Low | Bo Orr has succeeded Ann Low. | yes
        Who moved to Ulm? | Karl Low | Karl Low, whose aunt moved to Ulm, died. | yes
        Who bought Gull? | Bo Orr | He bought Gull, and his friend Bo Orr bought Tern. | no
        When did Bo Orr leave Ulm? | 1931 | When Ann Low left Ulm in 1931, Bo Orr had died. | yes
    who has a sister is not she: is_owner_only
        Who teaches there? | Ann Low | Ann Low's sister teaches there. | yes
        Who teaches there? | Ann Low | Ann Low, Bo's sister, teaches there. | no
    a mother is no man: is_of_other_sex
        Who was his father? | Prudence Orr | yes
        Who was his mother? | Sir Low Orr | yes
        Who was the father of Bo Orr married to? | Anna Low | no
"""
CASES = re.findall(r'^    (\w[^:\n]*): (\w+)\n((?: {8}.*\n)*)', CLAIMS, re.M)


@pytest.mark.parametrize('claim, function, rows', CASES)
def test_a_text_gives_a_name_what_is_asked_for_if_it_says_so(claim, function, rows):
    for *given, expected in examples(rows):
        assert FUNCTIONS[function](*given) is (expected == 'yes'), (claim, given)
