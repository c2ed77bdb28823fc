"""Whether a text gives a name the role, kin or qualifier that is asked for."""

from opql_jax.kb.text.deeds import is_deed_of_another, is_owner_only
from opql_jax.kb.text.qualifiers import has_rival, is_named_beside, is_of_other_owner
from opql_jax.kb.text.roles import has_role, is_of_other_sex, may_hold

from examples import table


@table("""
    question | name | sentence | has
    Who wrote it? | Ann Bell | Low Tide was directed by Ann Bell. | no
    Who wrote it? | Ann Bell | written, directed by, and starring Ann Bell. | yes
    Who wrote it? | Ann Bell | directed by Joe Orr from a script of Ann Bell. | yes
    Who wrote it? | Ann Bell | directed by Joe Orr. The author is Ann Bell. | yes
    Who stars in it? | Cy Orr | directed by Ann Bell and stars Cy Orr. | yes
    Which films star Ann Bell? | Ann Bell | It was produced by Joe Orr and Ann Bell. | no
    Where was Ann Bell born? | Ann Bell | It was produced by Ann Bell. | yes
    Which films did Ann Bell write? | Ann Bell | starring Ann Bell and written by Bell | yes
""")
def test_who_does_one_thing_has_not_done_another(question, name, sentence, has):
    assert has_role(question, name, sentence) is (has == 'yes')


@table("""
    question | name | text | may
    Who is the mayor of it? | Ann Low | The mayor fell in, pulled out by Ann Low. | no
    Who is the mayor of it? | Ann Low | The mayor of Harl, Ann Low, fell in. | yes
    Who is the mayor of it? | Ann Low | Ann Low (born 1950) has been its first mayor. | yes
    Who is Harl's mayor? | Ann Low | Ann Low met the mayor of Harl. | no
    Who is the owner of it? | Ann Low | Owner: Ann Low | yes
    Who is the author? | Nia Orr | The book's author is the Welsh poet Nia Orr. | yes
    Who was its architect? | Basil Low | It was designed by the architect Sir Basil Low. | yes
    Who is his son? | Phoebe | He has no sons. His daughter Phoebe came. | no
    Who is his son? | Tom | His daughter Phoebe and his son Tom came. | yes
    Who is his mother? | Low | Ed was born in Goole and married Kate Low. | no
    Who is her mother? | Liv Orr | Ina Orr is the daughter of Liv Orr. | yes
    Who is her husband? | Bo Orr | She married Bo Orr in 1900. | yes
    Who is his widow? | Bo Orr | Ann Low, the widow of Bo Orr, came. | no
    Who was the man who built it? | Bo Orr | The man came. Bo Orr built it. | yes
    Who is mayor of Harl? | Bo Orr | Ann Low is the mayor. Bo Orr came. | no
    Who is the treasurer? | Bo Orr | Ann Low (treasurer), Bo Orr (secretary) came. | no
    Who is the treasurer? | Ann Low | Ann Low (treasurer), Bo Orr (secretary) came. | yes
    Who is his partner? | Bo Orr | His partner's son, Bo Orr, came. | no
    Who is his mother? | Liv Orr | Bo was born to Ted Orr and his wife Liv Orr. | yes
    Who is director of it? | Bo Orr | Bo Orr is assistant director of it. | no
    Who is assistant director of it? | Bo Orr | Bo Orr is assistant director of it. | yes
""")
def test_a_role_belongs_to_the_name_that_it_stands_with(question, name, text, may):
    assert may_hold(question, name, text) is (may == 'yes')


@table("""
    question | sentence | has
    Who cast the second bell? | The third bell was cast by Bo. | yes
    Who cast the second bell? | The second and third bell were cast by Bo. | no
    Who cast the second bell? | Bo cast the bells. | no
    Who won it in 2008? | Bo won it in 2007. | yes
    Who opened the 13th fair? | The 12th was opened by Bo. | yes
    Who painted room 102? | Room 101 was painted by Bo. | yes
    Who painted room 102? | Rooms 101 and 102 were painted by Bo. | no
    When did the 4th Battalion leave? | It left on the 12th May 1915. | no
    Who won it in 2008? | Bo won it. | no
    When did Quill 2.2 come? | Quill 2.2 and 2.3 came in May. | no
    How many came in 2014? | We had 300 visitors, fewer than in 2014. | yes
    How many came in 2014? | In 2014 we had 300 visitors, more than in 2013. | no
    Who is the current mayor? | The first mayor was Bo. | yes
    Who is the current mayor? | Bo, who was first elected in 2001, is mayor. | no
    Who edited it earlier? | It is edited by Bo from now on. | yes
    Who was present at it? | Bo came, the first of many. | no
    Who is the deputy mayor? | The mayor is Bo. | yes
    Who edited it earlier? | Until 2001 Bo edited it, who now paints. | no
""")
def test_what_is_said_of_the_second_is_not_said_of_the_first(question, sentence, has):
    assert has_rival(question, sentence) is (has == 'yes')


@table("""
    question | name | beside
    Who was captain before Holt? | Rasmus Holt | yes
    Who replaced Rasmus Holt? | Rasmus Holt | yes
    Who replaced Rasmus Holt? | Jens Holt | no
    What is named after Ada Finch? | Ada Finch Museum | no
""")
def test_whom_a_question_names_beside_whom_it_asks_for(question, name, beside):
    assert is_named_beside(question, name) is (beside == 'yes')


@table("""
    question | sentence | is_other
    How much did the marrow of Ann Low weigh? | The marrow of Dodd weighed 9 kg. | yes
    How much did the marrow of Ann Low weigh? | Dodd's green marrow weighed 9 kg. | yes
    How much did Ann Low's marrow weigh? | Dodd's and the marrow of Low weighed 9 kg. | no
    How old is the tower of the church? | The tower of the castle is 90 years old. | yes
    How old is the tower of the church? | The tower of the old church is 90 years old. | no
    Who is director of the Lace Museum? | The director of the museum is Bo. | no
    Who is director of Acme Mills? | Bo Orr is director of the Company. | no
    Who is president of the USA? | The president of the United States is Bo. | no
""")
def test_what_is_of_one_owner_is_not_of_another(question, sentence, is_other):
    assert is_of_other_owner(question, sentence) is (is_other == 'yes')


@table("""
    question | name | sentence | is_anothers
    Who paid for it? | Ann Low | Ann Low thanked the Rotary Club, which paid for it. | yes
    Who paid for it? | Rotary Club | Ann Low thanked the Rotary Club, which paid for it. | no
    Who booked it? | Ann Low | I've booked it. | no
    Who opened Harl Mill? | Ann Low | Harl Mill opened with Ann Low in 1990. | no
    Who led it? | Ann Low | In May, Larder led by Ann Low left. | no
    Who married Bo Orr? | Ann Low | Bo Orr married Ann Low. | no
    Who was in it? | Ann Low | Bo Orr was in it. | no
    Who founded Lark? | Ann Low | Ann Low and fellow student Bo Orr founded Lark. | no
    When did Bo Orr die? | 1931 | The President died in 1931. | no
    Who succeeded Bo Orr? | Ann Low | Bo Orr has succeeded Ann Low. | yes
    Who moved to Ulm? | Karl Low | Karl Low, whose aunt moved to Ulm, died. | yes
    Who bought Gull? | Bo Orr | He bought Gull, and his friend Bo Orr bought Tern. | no
    Who bought Gull? | Bo Orr | Cy Wing bought Gull, and Bo Orr bought Tern. | yes
    Who moved to Ulm? | Karl Low | Karl Low died, and she moved to Ulm. | yes
    When did Bo Orr leave Ulm? | 1931 | When Ann Low left Ulm in 1931, Bo Orr had died. | yes
""")
def test_a_deed_is_of_whom_the_sentence_says_it(question, name, sentence, is_anothers):
    assert is_deed_of_another(question, name, sentence) is (is_anothers == 'yes')


@table("""
    question | name | sentence | is_owner
    Who teaches there? | Ann Low | Ann Low's sister teaches there. | yes
    Who teaches there? | Ann Low | Ann Low, Bo's sister, teaches there. | no
    Who is his father? | Ann Low | Bo was Ann Low's son. | no
    Whose brother was it? | Ann Low | It was Ann Low's brother. | no
""")
def test_who_has_a_sister_is_not_she(question, name, sentence, is_owner):
    assert is_owner_only(question, name, sentence) is (is_owner == 'yes')


@table("""
    question | name | is_other
    Who was his father? | Prudence Orr | yes
    Who was his father? | Low Orr | no
    Who was his mother? | Sir Low Orr | yes
    Who was the father of Bo Orr married to? | Anna Low | no
""")
def test_a_mother_is_no_man(question, name, is_other):
    assert is_of_other_sex(question, name) is (is_other == 'yes')
