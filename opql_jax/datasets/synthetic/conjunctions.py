"""How questions about two topics of the synthetic world are worded.

The keys are two steps (see `synthetic_wordings`), one from the topic `{x}` and one from `{y}`; the answers are what both lead
to. A wording may name the topics in either order.
"""

CONJUNCTIONS = {
    ('starring^-1', 'directed_by^-1'): (
        'which films starred {x} and were directed by {y}',
        'in which films by the director {y} did {x} act',
        'name the films with {x} in the cast that {y} directed',
        'which films did {y} direct with {x} in a leading role',
        'for which films was {y} the director and {x} one of the actors',
    ),
    ('starring^-1', 'produced_by^-1'): (
        'which films starred {x} and were produced by {y}',
        'in which films of the studio {y} did {x} appear',
        'name the films that {y} produced with {x} in the cast',
        'which films with {x} in a leading role did {y} pay for',
        'what did {x} act in that came out of the studio of {y}',
    ),
    ('written_by^-1', 'starring^-1'): (
        'which films were written by {x} and starred {y}',
        'in which films written by {x} did {y} act',
        'name the films with a script by {x} and with {y} in the cast',
        'for which films with {y} in a leading role did {x} write the screenplay',
    ),
    ('written_by^-1', 'directed_by^-1'): (
        'which films were written by {x} and directed by {y}',
        'which films did {y} direct from a script by {x}',
        'name the films that had {x} as screenwriter and {y} as director',
        'for which films of the director {y} did {x} write the screenplay',
    ),
    ('directed_by^-1', 'filmed_in^-1'): (
        'which films were directed by {x} and filmed in {y}',
        'which films did {x} direct on location in {y}',
        'name the films of the director {x} that were shot in {y}',
        'for which films directed by {x} was {y} the location',
    ),
    ('produced_by^-1', 'filmed_in^-1'): (
        'which films were produced by {x} and filmed in {y}',
        'which films of the studio {x} were shot in {y}',
        'name the films that {x} produced on location in {y}',
        'for which films produced by {x} was {y} the location',
    ),
    ('born_in^-1', 'works_for^-1'): (
        'which people born in {x} worked for {y}',
        'who was born in {x} and employed by {y}',
        'name the employees of {y} whose birthplace was {x}',
        'who held a job at {y} and was born in {x}',
    ),
    ('educated_at^-1', 'born_in^-1'): (
        'which people educated at {x} were born in {y}',
        'who was born in {y} and studied at {x}',
        'name the students of {x} whose birthplace was {y}',
        'who graduated from {x} and was born in {y}',
    ),
    ('works_for^-1', 'educated_at^-1'): (
        'which employees of {x} were educated at {y}',
        'who worked for {x} and studied at {y}',
        'name the people on the staff of {x} who graduated from {y}',
        'who had a degree from {y} and a job at {x}',
    ),
    ('starring', 'born_in^-1'): (
        'which actors in {x} were born in {y}',
        'who acted in {x} and was born in {y}',
        'name the actors of {x} whose birthplace was {y}',
        'who in the cast of {x} was born in {y}',
    ),
}
