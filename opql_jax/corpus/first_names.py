"""First names that are next to always those of men, or of women."""

import unicodedata

_OF_MEN = frozenset(
    'abel adam adrian alan albert alberto alexander alfred andreas andrew anthony antoine anton '
    'antonio arthur august axel benjamin bernard bernhard bjorn boris bruno carl carlos charles '
    'christian christopher conrad cornelius daniel david denis dermot dietrich dmitri donald '
    'douglas duncan edgar edmund eduard edward edwin emil enrico eric erich erik ernest ernst '
    'eustace felix fernando finn francis francois frank frederick fridtjof friedrich fritz '
    'geoffrey georg george gerald gilbert giles giovanni giuseppe gregory guillaume gunnar gustav '
    'guy hans harald harold harry heinrich hendrik henri henry herbert hermann horace hugh hugo '
    'humphrey ian igor isaac ivan ivo jack jacob jakob james javier jens jeremy joachim johan '
    'johann john jonathan jorge jose josef joseph juan jules julius karl keith kenneth klaus kurt '
    'lars laurence leonard leopold lionel louis ludwig luigi magnus manuel marcel marco mario '
    'mark martin matthew maurice max maximilian michael miguel mikhail mohammed moses muhammad '
    'neil nicholas niels nigel nikolai norman olaf oliver oscar otto owen patrick paul pavel '
    'pedro percy peter philip pierre ralph raymond reginald rene ricardo richard robert roger '
    'roland ronald rudolf rufus rupert samuel sean sebastian sergei silas simon stanley stefan '
    'stephen steven stuart theodore thomas timothy tom tomas trevor umberto urs victor viktor '
    'vincent vladimir walter wilhelm william wolfgang yuri'.split()
)
_OF_WOMEN = frozenset(
    'abigail ada adele agnes aileen alice alma amalia amelia anastasia anita ann anna anne annie '
    'astrid audrey barbara beatrice beatriz bertha bettina birgit bridget brigitte carla caroline '
    'catherine cecilia charlotte christina christine claire clara claudia constance cordelia '
    'deborah deirdre diana dolores dora doris dorothea dorothy edith eileen eleanor elena '
    'elisabeth elise eliza elizabeth ella ellen elsa emilia emily emma erika esther eugenie eva '
    'eveline fiona flora florence frances frida frieda gabriella gerda gertrude gisela greta '
    'gudrun hannah harriet hedwig helen helena helene henrietta hilda hildegard ida inga ingeborg '
    'ingrid irene irina isabel isabella jane janet jeanne jennifer jessica joanna johanna '
    'josephine judith julia juliet karin katarina katharine katherine kathleen kirsten lara laura '
    'leonora lidia linda lisa lotte louisa louise lucia lucy lydia mabel magdalena marcia '
    'margaret margarethe margot maria marianne marie marina marta martha mary mathilda matilda '
    'maud mildred millicent miriam moira monica muriel nadia nancy natalia natasha nell nina nora '
    'nuala octavia odile olga olivia ottilie patricia pauline petra phoebe phyllis priscilla '
    'prudence rachel rebecca rosa rosalind rosemary ruth sara sarah sigrid silvia sofia solveig '
    'sonja sophia sophie susan susanna sylvia tabitha tatiana teresa theresa ursula valentina '
    'vera veronica victoria wilhelmina winifred yvonne'.split()
)


def is_mans_name(name: str) -> bool | None:
    """Whether a person's name begins with the first name of a man; None if that is unknown."""
    first = unicodedata.normalize('NFKD', name.split(' ')[0]).encode('ascii', 'ignore').decode()
    is_mans = first.lower() in _OF_MEN
    return is_mans if is_mans or first.lower() in _OF_WOMEN else None
