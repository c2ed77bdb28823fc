"""Documents as JSON Lines, for tests of what is said of bad ones."""


def documents():
    """Thirty pages, each with two mentions."""
    for i in range(30):
        film, person = f'Film{i}', f'Person{i % 7}'
        spans = {film: (0, len(film)), person: (len(film) + 13, len(film) + 13 + len(person))}
        mentions = [
            {'start': start, 'end': end, 'entity': name} for name, (start, end) in spans.items()
        ]
        yield {
            'id': f'd{i}',
            'title': film,
            'text': f'{film} was made by {person}.',
            'title_entity': film,
            'mentions': mentions,
        }
