"""Documents as JSON Lines, for tests of what is said of bad ones."""


def documents():
    """Thirty pages, each with two mentions."""
    for i in range(30):
        names, text = (f'Film{i}', f'Person{i % 7}'), f'Film{i} was made by Person{i % 7}.'
        spans = ((text.index(name), text.index(name) + len(name), name) for name in names)
        mentions = [{'start': start, 'end': end, 'entity': name} for start, end, name in spans]
        page = {'id': f'd{i}', 'title': names[0], 'text': text}
        yield {**page, 'title_entity': names[0], 'mentions': mentions}
