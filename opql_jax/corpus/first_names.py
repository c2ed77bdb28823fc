"""First names that are next to always those of men, or of women."""

import unicodedata

_OF_MEN = frozenset(
    'abel adam adrian alan albert alberto alexander alfred amos andreas andrew angus anthony '
    'antoine anton antonio arthur august axel ben benjamin bernard bernhard bert bill bjorn bob '
    'boris bruno carl carlos charles christian christopher conrad cornelius dan daniel david '
    'denis dermot dietrich dmitri donald douglas duncan edgar edmund eduard edward edwin emil '
    'emile enrico eric erich erik ernest ernst eustace felix fernando finn francis francois frank '
    'fred frederick fridtjof friedrich fritz geoffrey georg george gerald gilbert giles giovanni '
    'giuseppe gregory guillaume gunnar gustav guy hal hans harald harold harry hector heinrich '
    'hendrik henri henry herbert hermann horace hugh hugo humphrey ian igor isaac ivan ivo jack '
    'jacob jakob james javier jens jeremy jim joachim joe johan johann john jonathan jorge jose '
    'josef joseph josiah juan jules julius karl keith kenneth klaus kurt lars laurence leonard '
    'leopold lionel louis ludwig luigi magnus manuel marcel marco mario mark martin matthew '
    'maurice max maximilian michael miguel mike mikhail mohammed moses muhammad ned neil nicholas '
    'nick niels nigel nikolai nils norman olaf oliver oscar otto owen patrick paul pavel pedro '
    'percy peter philip pierre ralph raymond reginald rene ricardo richard robert roger roland '
    'ronald rudolf rufus rupert samuel sean sebastian sergei silas simon stanley stefan stephen '
    'steven stuart sven ted theodore thomas tim timothy toby tom tomas trevor umberto urs victor '
    'viktor vincent vladimir walter wilfred wilhelm william wolfgang yuri'.split()
)
_OF_WOMEN = frozenset(
    'abigail ada adele agnes aileen alice alma amalia amelia anastasia anita ann anna anne annie '
    'astrid audrey barbara beatrice beatriz bertha bettina betty birgit bridget brigitte carla '
    'caroline catherine cecilia charlotte christina christine claire clara clarice claudia '
    'constance cordelia deborah deirdre diana dolores dora doris dorothea dorothy edith edna '
    'eileen eleanor elena elisabeth elise eliza elizabeth ella ellen elsa emilia emily emma erika '
    'esther ethel eugenie eva eveline fay fiona flora florence frances frida frieda gabriella '
    'gerda gertrude gisela greta gudrun gwen hannah harriet hattie hedwig helen helena helene '
    'henrietta hilda hildegard ida imelda inga ingeborg ingrid irene irina isabel isabella isobel '
    'jane janet jeanne jemima jennifer jessica joanna johanna josephine judith julia juliet karin '
    'katarina kate katharine katherine kathleen kirsten kitty lara laura leonora lettice lidia '
    'lily linda lisa lotte louisa louise lucia lucy lydia mabel magdalena maisie marcia margaret '
    'margarethe margot maria marianne marie marina marta martha mary mathilda matilda maud '
    'mildred millicent miriam moira molly monica morag muriel nadia nancy natalia natasha nell '
    'nellie nina nora nuala octavia odile olga olivia ottilie patricia pauline peggy petra phoebe '
    'phyllis polly priscilla prudence rachel rebecca rosa rosalind rosemary rosie ruth sally sara '
    'sarah sigrid silvia sofia solveig sonja sophia sophie susan susanna susannah sylvia tabitha '
    'tatiana teresa theresa tilda una ursula valentina vera veronica victoria wilhelmina winifred '
    'yvonne'.split()
)


def is_mans_name(name: str) -> bool | None:
    """Whether a person's name begins with the first name of a man; None if that is unknown."""
    first = unicodedata.normalize('NFKD', name.split(' ')[0]).encode('ascii', 'ignore').decode()
    is_mans = first.lower() in _OF_MEN
    return is_mans if is_mans or first.lower() in _OF_WOMEN else None


def first_names(of_men: bool) -> tuple[str, ...]:
    """Those of men, or of women, in lower case, in order."""
    return tuple(sorted(_OF_MEN if of_men else _OF_WOMEN))
