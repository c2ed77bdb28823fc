"""Titles of wiki pages, and what a link to one means: which page, and whether the link is shown at all."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

_SPACES = re.compile('[ _\t\n\xa0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
_DIRECTIONS = re.compile('[\u200e\u200f\u202a-\u202e]')
_ILLEGAL = re.compile(r'[\x00-\x1f\x7f<>\[\]{|}\ufffd]')
_FILE, _CATEGORY = 6, 14

# The names that every wiki understands beside those of its own language, by number.
ENGLISH_NAMESPACES = {
    'media': -2,
    'special': -1,
    'talk': 1,
    'user': 2,
    'user talk': 3,
    'project': 4,
    'project talk': 5,
    'file': _FILE,
    'image': _FILE,
    'file talk': 7,
    'image talk': 7,
    'mediawiki': 8,
    'mediawiki talk': 9,
    'template': 10,
    'template talk': 11,
    'help': 12,
    'help talk': 13,
    'category': _CATEGORY,
    'category talk': 15,
}

# Prefixes of links to the same page in another language, which stand in the margin and not in the text.
LANGUAGES = frozenset(
    'aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg bbc '
    'bcl bdr be be-tarask be-x-old bew bg bh bho bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo ce ceb ch cho chr '
    'chy ckb co cr crh cs csb cu cv cy cz da dag de dga din diq dk dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff '
    'fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw he '
    'hi hif ho hr hsb ht hu hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kcg kg '
    'kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln lo lrc lt ltg '
    'lv lzh mad mai map-bms mdf mg mh mhr mi min mk ml mn mni mnw mo mos mr mrj ms mt mus mwl my myv mzn na nah nan nap nb '
    'nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm pdc pfl pi pih pl '
    'pms pnb pnt ps pt pwn qu rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco sd se sg sgs sh shi shn '
    'si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw szl szy ta tay tcy tdd te tet tg th ti tig tk tl tly tn '
    'to tok tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo vro wa war wo wuu xal xh xmf yi yo yue za '
    'zea zgh zh zh-classical zh-min-nan zh-yue zu'.split()
)


class Link(NamedTuple):
    """A page that a link leads to, None unless it may be an article; and whether a reader of the text sees the link."""

    title: str | None
    shown: bool


@dataclasses.dataclass(frozen=True)
class Site:
    """What the head of a dump says about its titles.

    Attributes:
        namespaces: number of each namespace by its name in lower case, beside `ENGLISH_NAMESPACES`.
        first_letter: titles of articles begin with a capital, and a link may write it small.
    """

    namespaces: Mapping[str, int] = dataclasses.field(default_factory=dict)
    first_letter: bool = True

    def link(self, written: str) -> Link:
        """What `[[written]]` leads to; entities such as `&amp;` are characters by now."""
        if '%' in written:
            written = unquote(written)
        title = _SPACES.sub(' ', _DIRECTIONS.sub('', written.partition('#')[0])).strip(' ')
        plain = not title.startswith(':')  # a colon makes an ordinary link of any
        title = title.removeprefix(':').lstrip(' ')
        prefix, colon, _ = title.partition(':')
        if colon:
            name = prefix.rstrip(' ').lower()
            if number := self._numbers.get(name):
                return Link(None, not (plain and number in (_FILE, _CATEGORY)))
            if name in LANGUAGES:
                return Link(None, not plain)
        if not title or _ILLEGAL.search(title):
            return Link(None, True)
        return Link(self._capital(title), True)

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {**ENGLISH_NAMESPACES, **self.namespaces}

    def _capital(self, title: str) -> str:
        first = title[0].upper() if self.first_letter else title[0]
        return first + title[1:] if len(first) == 1 else title  # 'ß' has no capital of one letter
