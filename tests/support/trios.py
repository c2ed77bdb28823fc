"""Three plain documents each, and questions of one and two hops that nobody trained on."""

import pathlib
import re
from collections import namedtuple

from opql_jax.corpus.name_resolution import fold

# A question, its answer, and words of a sentence that says so.
Asked = namedtuple('Asked', 'question answer said')
# Documents by title, and questions about them.
Trio = namedtuple('Trio', 'documents asked')


def write(folder: pathlib.Path, documents: dict[str, str]) -> pathlib.Path:
    """Writes documents into a folder, a file each, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, text in documents.items():
        (folder / f'{fold(title)}.txt').write_text(f'{title}\n\n{text}\n', encoding='utf-8')
    return folder


def read(trios: str) -> dict[str, Trio]:
    """Trios by name, of lines `# name`, `title: text` and `? question | answer | words`."""
    found = {}
    for line in re.sub(r'\n +', ' ', trios).split('\n'):
        if line.startswith('# '):
            trio = found[line[2:]] = Trio({}, [])
        elif line.startswith('? '):
            trio.asked.append(Asked(*line[2:].split(' | ')))
        elif line:
            title, text = line.split(': ', 1)
            trio.documents[title] = text
    return found


# A document that may be added to those of `engine`.
SCHEUTZ = {
    'id': 'new',
    'title': 'Per Georg Scheutz',
    'text': 'Per Georg Scheutz was a printer, born in Jönköping.',
}
TRIOS = read("""
# engine
Ada Lovelace: Ada Lovelace was an English mathematician and writer, born in London in 1815. She
  was the only legitimate child of the poet Lord Byron and his wife Anne Isabella Milbanke.
  Lovelace wrote the first published algorithm for the Analytical Engine, a machine that Charles
  Babbage proposed.
Charles Babbage: Charles Babbage was an English polymath. Babbage designed the Difference Engine
  and, later, the Analytical Engine. He died in Marylebone in 1871.
Lord Byron: George Gordon Byron, known as Lord Byron, was an English poet. Byron travelled to
  Greece to fight in the Greek War of Independence. He died in Missolonghi in 1824. He was the
  father of Ada Lovelace.
? Where did the father of Ada Lovelace die? | Missolonghi | died in Missolonghi
? Who designed the Analytical Engine? | Charles Babbage | Babbage designed

# radium
Marie Curie: Marie Curie was a physicist and chemist who was born in Warsaw in 1867. She married
  Pierre Curie in 1895. Together they discovered radium.
Pierre Curie: Pierre Curie was a French physicist. He studied at the University of Paris, and died
  in Paris in 1906.
Irène Joliot-Curie: Irène Joliot-Curie was a French chemist, the daughter of Marie Curie. She won
  the Nobel Prize in Chemistry in 1935.
? Where was Marie Curie born? | Warsaw | born in Warsaw
? Where was the mother of Irène Joliot-Curie born? | Warsaw | born in Warsaw

# company
Norvale Systems: Norvale Systems is a software company that was founded by Helena Brandt in 2009.
  Its headquarters are in Rotterdam.
Helena Brandt: Helena Brandt is a Dutch engineer. She studied at Delft University of Technology
  and lives in Utrecht.
Quillfish: Quillfish is a text editor that was developed by Norvale Systems. It was released in
  2014.
? Who founded Norvale Systems? | Helena Brandt | founded by Helena Brandt
? Where are the headquarters of the company that developed Quillfish? | Rotterdam | headquarters
  are in Rotterdam

# river
Isar: The Isar is a river in Bavaria. It flows into the Danube near Deggendorf.
Danube: The Danube is a river in Europe. It rises in the Black Forest and flows into the Black
  Sea.
Deggendorf: Deggendorf is a town in Bavaria. Its mayor is Christian Moser.
? What does the Isar flow into? | Danube | flows into the Danube
? Who is the mayor of Deggendorf? | Christian Moser | mayor is Christian Moser
""")
