"""What the synthetic world can say: its relations and the sentences that state them.

A template holds a slot for the subject `{s}` and one for the object `{o}` of a fact. A slot may be
filled by the page's own entity, which later sentences replace by a pronoun, so slots name a case where
English asks for one: `{o}` nominative (she), `{o.him}` objective (her), `{o.his}` possessive (her, Ann's),
`{o.name}` always the name. The other side may be a list (`A, B and C`): verbs are in the past tense, and a
`was` right after a list becomes `were`.
"""

import dataclasses

PAGE_KINDS = ('film', 'person', 'company', 'city', 'book')
KINDS = PAGE_KINDS + ('country', 'university')


@dataclasses.dataclass(frozen=True)
class Relation:
    """A relation of the world.

    Attributes:
        name: the relation's name, as in gold chains.
        subject, object: kinds of entity.
        source, target: what a question type calls the two sides (`film`, `director`).
        both: share of the facts stated on the pages of both sides.
        object_only: share of the facts stated on the object's page alone.
        symmetric: whether the fact also holds with subject and object exchanged.
    """

    name: str
    subject: str
    object: str
    source: str
    target: str
    both: float = 0.3
    object_only: float = 0.1
    symmetric: bool = False


# Cities are hubs: their pages carry only a few of the facts about them. Countries and universities have no page.
RELATIONS = {
    relation.name: relation
    for relation in (
        Relation('directed_by', 'film', 'person', 'film', 'director'),
        Relation('written_by', 'film', 'person', 'film', 'writer'),
        Relation('starring', 'film', 'person', 'film', 'actor'),
        Relation('produced_by', 'film', 'company', 'film', 'studio'),
        Relation('filmed_in', 'film', 'city', 'film', 'location', both=0.1, object_only=0.0),
        Relation('based_on', 'film', 'book', 'film', 'book'),
        Relation('authored_by', 'book', 'person', 'book', 'author', object_only=0.0),
        Relation('born_in', 'person', 'city', 'person', 'birthplace', both=0.1, object_only=0.0),
        Relation('educated_at', 'person', 'university', 'person', 'university', both=0.0, object_only=0.0),
        Relation('married_to', 'person', 'person', 'person', 'spouse', symmetric=True),
        Relation('works_for', 'person', 'company', 'person', 'employer'),
        Relation('founded_by', 'company', 'person', 'company', 'founder'),
        Relation('headquartered_in', 'company', 'city', 'company', 'city', both=0.1, object_only=0.0),
        Relation('located_in', 'city', 'country', 'city', 'country', both=0.0, object_only=0.0),
    )
}

# How later sentences refer to the page's entity: (nominative, objective, possessive). `it` opens a sentence only.
REFERENCES = {
    'film': (('the film', 'the film', "the film's"), ('the picture', 'the picture', "the picture's")),
    'book': (('the book', 'the book', "the book's"), ('the novel', 'the novel', "the novel's")),
    'company': (('the company', 'the company', "the company's"), ('the firm', 'the firm', "the firm's")),
    'city': (('the city', 'the city', "the city's"), ('the town', 'the town', "the town's")),
    'it': (('it', 'it', 'its'),),
    'she': (('she', 'her', 'her'),),
    'he': (('he', 'him', 'his'),),
}

SENTENCES = {
    'directed_by': (
        '{s} was directed by {o.him}',
        '{o} directed {s}',
        '{s} was shot under the direction of {o.him}',
        '{o} was the director of {s}',
        'The director of {s} was {o.name}',
        'The direction of {s} was entrusted to {o.him}',
        "{o} sat in the director's chair for {s}",
        'As director of {s}, {o} insisted on long takes',
        '{s} had {o.him} as director',
    ),
    'written_by': (
        '{s} was written by {o.him}',
        '{o} wrote the screenplay of {s}',
        'The screenplay of {s} was {o.his} work',
        '{o} was the screenwriter of {s}',
        '{s} grew out of a script by {o.him}',
        'The script of {s} came from {o.him}',
        '{o} wrote the script for {s}',
        '{s} had {o.him} as screenwriter',
    ),
    'starring': (
        '{s} starred {o.him}',
        '{o} starred in {s}',
        'The cast of {s} included {o.him}',
        '{o} acted in {s}',
        '{s} featured {o.him} in the leading roles',
        '{o} appeared on screen in {s}',
        'The leading roles in {s} were played by {o.him}',
        '{o} joined the cast of {s}',
        '{o} played a leading role in {s}',
    ),
    'produced_by': (
        '{s} was produced by {o}',
        '{o} produced {s}',
        'The production of {s} was financed by {o}',
        '{o} was the studio behind {s}',
        '{s} came out of the studio of {o}',
        'The budget of {s} was provided by {o}',
        '{o} paid for the production of {s}',
        '{s} carried the name of {o} as producer',
    ),
    'filmed_in': (
        '{s} was filmed in {o}',
        '{o} served as the location for {s}',
        'The filming of {s} took place in {o}',
        'The streets of {o} can be seen in {s}',
        '{s} was shot on location in {o}',
        'In {o} the crew spent months filming {s}',
        'The outdoor scenes of {s} were filmed in {o}',
    ),
    'based_on': (
        '{s} was based on {o}',
        '{o} was adapted into {s}',
        '{s} was adapted from {o}',
        '{o} was the source of the story of {s}',
        'The plot of {s} was taken from the pages of {o}',
        'The pages of {o} were adapted for the screen as {s}',
        '{s} brought {o} to the screen',
    ),
    'authored_by': (
        '{o} was the author of {s}',
        'The author of {s} was {o.name}',
        '{s} came from the desk of the author {o.name}',
        '{o} finished {s} after years at the writing desk',
        '{s} was penned by {o.him}',
        '{o} penned {s}',
        '{s} appeared in print with {o.name} named as author',
        'As a novelist, {o} published {s}',
    ),
    'born_in': (
        '{s} was born in {o}',
        '{o} was {s.his} birthplace',
        '{s} came into the world in {o}',
        'In {o}, {s} was born to a family of bakers',
        '{s.his} birthplace was {o}',
        '{s} spent a childhood in {o}, where the family had long lived',
        'It was in {o} that {s} was born',
    ),
    'educated_at': (
        '{s} studied at {o}',
        '{o} counted {s.him} among its students',
        '{s} was educated at {o}',
        '{s} graduated from {o}',
        'At {o}, {s} earned a degree',
        '{s} received a degree from {o}',
        'The lectures at {o} formed {s.him} as a student',
    ),
    'married_to': (
        '{s} was married to {o.him}',
        '{s} married {o.him} in a small ceremony',
        '{o} became {s.his} spouse',
        'The wedding of {s.name} and {o.name} was a quiet affair',
        '{o} was {s.his} spouse',
        '{s} and {o.name} were husband and wife',
        'The marriage between {s.name} and {o.name} lasted',
        'In marriage, {o} and {s.name} shared a house by the sea',
    ),
    'works_for': (
        '{s} worked for {o}',
        '{o} employed {s.him}',
        '{s} held a job at {o}',
        '{o} hired {s.him} to keep the accounts',
        '{s} was among the employees of {o}',
        '{s.his} employer was {o}',
        'The staff of {o} welcomed {s.him} on the first day of the job',
        '{s} was on the payroll of {o}',
    ),
    'founded_by': (
        '{s} was founded by {o.him}',
        '{o} founded {s}',
        '{o} was the founder of {s}',
        'The founder of {s} was {o.name}',
        '{s} was established by {o.him}',
        '{o} established {s} with borrowed money',
        '{s} was started in a garage by {o.him}',
        'As founder, {o} started {s} with two friends',
    ),
    'headquartered_in': (
        '{s} had headquarters in {o}',
        '{o} was home to the headquarters of {s}',
        'The main office of {s} stood in {o}',
        'From a head office in {o}, {s} ran a dozen branches',
        '{s} was headquartered in {o}',
        'In {o} stood the head office of {s}',
        '{s} moved the main office to {o}',
    ),
    'located_in': (
        '{s} was a city in {o}',
        '{o} had {s} among its cities',
        '{s} lay within the borders of {o}',
        'On maps of {o}, {s} was marked as a city',
        '{s} was located in {o}',
        'In the country of {o}, {s} was a busy place',
        '{s} belonged to the country of {o}',
    ),
}

# Sentences that mention the page's entity {s} and another one {o} of the given kind, or only the other, and
# state none of the relations.
DISTRACTORS = {
    'film': (
        ('film', 'Critics often compared {s} to {o}'),
        ('film', 'A screening was held the week {o} opened'),
        ('film', 'Posters of {s} were once mistaken for those of {o}'),
        ('person', '{o} attended the premiere of {s}'),
        ('person', '{o} called {s} a waste of an evening'),
        ('city', 'A festival in {o} cancelled a screening of {s}'),
        ('company', 'Shares of {o} fell on the day {s} opened'),
        ('book', 'Reviewers of {s} were also reading {o} that month'),
    ),
    'person': (
        ('person', '{s} once shared a taxi with {o}'),
        ('person', '{o} painted a portrait of {s.him}'),
        ('person', 'At chess, {s} lost twice to {o}'),
        ('film', '{s} fell asleep during {o}'),
        ('film', 'A neighbour kept a poster of {o}'),
        ('book', '{s} kept a torn copy of {o} on the shelf'),
        ('city', '{s} missed a train to {o}'),
        ('company', '{s} sent an angry letter to {o}'),
    ),
    'company': (
        ('company', '{s} was often confused with {o}'),
        ('company', 'A lawsuit by {o} troubled the board for years'),
        ('person', '{o} complained about the prices of {s}'),
        ('film', 'Calendars with scenes from {o} hung in every corridor'),
        ('city', 'A storm in {o} delayed the parcels of {s}'),
    ),
    'city': (
        ('city', 'Trains ran from {s} to {o} every hour'),
        ('city', 'Football fans from {o} rarely cheered for {s}'),
        ('person', '{o} got lost on a visit to {s}'),
        ('film', 'A cinema in {s} once showed {o} for a whole year'),
        ('company', 'Lorries of {o} blocked the market square'),
    ),
    'book': (
        ('book', 'Librarians shelved {s} next to {o}'),
        ('book', 'Readers who disliked {o} were kinder this time'),
        ('person', '{o} lost a copy of {s} on a train'),
        ('film', 'Booksellers packed {s} together with tickets for {o}'),
        ('city', 'A bookshop in {o} sold out of {s}'),
    ),
}

# Sentences without any mention.
FILLERS = {
    'film': (
        'The reviews were mixed, though the music found admirers',
        'Audiences laughed in places nobody had expected',
        'The costumes are kept in a museum today',
        'A shorter cut was shown on aeroplanes',
        'The final scene was changed at the last moment',
        'Tickets sold slowly until the rain set in',
    ),
    'person': (
        'Friends remember a quiet person with a loud laugh',
        'Long walks and strong coffee were a daily habit',
        'Interviews were rare and usually short',
        'A fear of flying made every journey long',
        'The garden behind the house was full of roses',
        'Few letters from those years survive',
        'Evenings were spent at the piano',
        'A broken leg ended an early love of skiing',
        'Old age brought a sudden interest in beekeeping',
        'Rivals praised the patience and the good manners',
    ),
    'company': (
        'Profits rose in good years and vanished in bad ones',
        'The logo shows a heron above three waves',
        'Newspapers followed every rumour about a merger',
        'The canteen was famous for its soup',
        'Annual reports were printed on yellow paper',
    ),
    'city': (
        'Winters are mild and the harbour never freezes',
        'The old market burns its lamps until midnight',
        'Tourists come for the bridges and stay for the food',
        'A tram line climbs the hill behind the station',
        'The river floods every few years',
    ),
    'book': (
        'The first edition had a blue cover',
        'Schools put it on their reading lists',
        'Translators struggled with the many puns',
        'The last chapter divided its readers',
        'A map is folded into the back cover',
    ),
}
