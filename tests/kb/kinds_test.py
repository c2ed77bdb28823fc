"""What kind of thing a name is, is told by how the text speaks of it."""

DOCUMENTS = {
    'Kestrel Observatory': 'Kestrel Observatory stands near Halden. It was founded by Lucas '
    'Fenwick, who studied in Tromford.',
    'Henrietta Voss': 'Henrietta Voss trained in the Glasgow office of Duncan Raeburn and died in '
    'Brenwick.',
    'Tamarisk Bay': 'Tamarisk Bay is the capital of Quillon. Most ships there come from Brenwick.',
}
KINDS = {
    'person': {'Lucas Fenwick', 'Henrietta Voss', 'Duncan Raeburn'},
    'place': {'Halden', 'Tromford', 'Glasgow', 'Brenwick', 'Tamarisk Bay', 'Quillon'},
}


def test_names_that_no_one_has_heard_of_are_persons_and_places_as_the_text_says(kb):
    kinds = dict(zip(kb.vocab.names, kb.vocab.kinds))
    named = lambda kind: {name for name, found in kinds.items() if found == kind}
    assert {kind: named(kind) - {'Kestrel Observatory'} for kind in KINDS} == KINDS
    recognised = dict(zip(kb.prepared.vocab.names, kb.prepared.vocab.kinds))
    told = {name: kind for kind, names in KINDS.items() for name in names}
    # The recogniser alone is wrong here: else this test shows nothing.
    assert any(recognised[name] != kind for name, kind in told.items())
    assert kb.ask('Who trained Henrietta Voss?').names[0] == 'Duncan Raeburn'
    places = kb.entity('Henrietta Voss').follow('died in').where(kind='place').top(5)
    assert set(places.names) == {'Glasgow', 'Brenwick'}
