"""Public data sets as TFDS builders; importing this module registers them.

    from opql_jax_tasks import public_sets
    examples = tfds.load('opql_metaqa/2-hop', split='train', download_and_prepare_kwargs={
        'download_config': tfds.download.DownloadConfig(manual_dir='/data/metaqa')})
    public_sets.write_jsonl(examples, 'metaqa.2-hop.train.jsonl')

Examples are what the readers of `opql_jax.datasets` make of the files: questions as
`corpus.questions` describes them, for `opql_jax.train` and `opql_jax.eval`, and passages as a JSON
Lines corpus has them (`opql_jax.datasets.jsonl`). `write_jsonl` writes either.

    data set              configurations                              splits
                          files
    opql_metaqa           1-hop, 2-hop, 3-hop                         train, validation, test
                          by hand (Google Drive)
    opql_wikimovies       questions                                   train, validation, test
                          downloaded
                          passages                                    train
    opql_webqsp           names; see `Linked`                         train, test
                          downloaded
    opql_complexwebq      a `Linked`                                  train, validation
                          by hand (Dropbox)
    opql_msf              1-hop, 2-hop, 3-hop and {hops}-passages     train, test
                          by hand (made by DrKIT's scripts)

Files are written as TFRecord, TFDS's default, which `tfds.load` and `seqio.TfdsDataSource` read;
for Grain give `file_format='array_record'` and ask for a data source.

Downloads come by https and must have the SHA-256 of checksums.tsv; so must a copy in the manual
folder, which is used instead of a download. The checksum of WikiMovies is published by ParlAI and
Hugging Face's datasets; that of WebQSP.zip, for which Microsoft gives none, agrees between two
public projects that downloaded it. No checksum is published for the files fetched by hand, so they
are not checked.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

from opql_jax.core import files as storage
from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.datasets import complexwebquestions, metaqa, msf, webqsp
from opql_jax.datasets.entity_resolution import EntityResolver
from opql_jax.datasets.question_records import with_topics
from opql_jax_tasks import wikimovies

WIKIMOVIES = 'https://parl.ai/downloads/wikimovies/wikimovies.tar.gz'
WEBQSP = (
    'https://download.microsoft.com/download/F/5/0/F5012144-A4FB-4084-897F-CFDA99C60BDF/WebQSP.zip'
)
HOPS = (1, 2, 3)
NO_ENTITIES = EntityVocab([], [], [])


@dataclasses.dataclass(kw_only=True)
class Linked(tfds.core.BuilderConfig):
    """How WebQSP and ComplexWebQuestions are linked: `tfds.builder(..., config=Linked(...))`.

    The configuration is named by a digest of its files, so other files make another data set.
    Without any file its name is 'names', and entities are written by the names that the data set
    gives them.

    Attributes:
        entities: entities.parquet of a prepared folder; entities are written by its keys.
        mid_to_qid, qid_labels: tables that `EntityResolver` reads.
    """

    name: str = 'names'
    entities: str | os.PathLike | None = None
    mid_to_qid: str | os.PathLike | None = None
    qid_labels: str | os.PathLike | None = None

    def __post_init__(self):
        files = [self.entities, self.mid_to_qid, self.qid_labels]
        if any(files):
            digest = hashlib.sha256(
                repr([file and storage.sha256(file) for file in files]).encode()
            ).hexdigest()
            self.name = f'linked-{digest[:12]}'

    def resolver(self) -> EntityResolver:
        vocab = EntityVocab.load(self.entities) if self.entities else NO_ENTITIES
        return EntityResolver(vocab, self.mid_to_qid, self.qid_labels)


class _PublicSet(tfds.core.GeneratorBasedBuilder):
    """The base of the builders; each adds where its files come from and which reader reads them."""

    VERSION = tfds.core.Version('1.0.0')
    # Beside it lies checksums.tsv. TFDS 4.9.10 would look for it with a package that it asks for on
    # Python 3.8 only.
    code_path = pathlib.Path(__file__)

    def _info(self):
        text, texts = tfds.features.Text(), tfds.features.Sequence(tfds.features.Text())
        spans = tfds.features.Tensor(shape=(None, 2), dtype=np.int32)
        if 'passages' in self.builder_config.name:
            features = {
                'id': text,
                'title': text,
                'text': text,
                'title_entity': text,
                'mentions': spans,
                'entities': texts,
            }
            features['linked'] = np.bool_
        else:
            features = {
                'id': text,
                'question': text,
                'topics': spans,
                'entities': texts,
                'answers': texts,
            }
            features |= {'hops': np.int32, 'type': text}
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features),
            description=type(self).__doc__,
            homepage=self.HOMEPAGE,
            disable_shuffling=True,  # the order of the files
        )

    def _manual_file(self, dl_manager, *names):
        """The first of some files that lies in the manual folder; InputError if none does."""
        paths = [dl_manager.manual_dir / name for name in names]
        found = next((path for path in paths if path.exists()), None)
        if found is None:
            raise InputError(f'{paths[0]}: no such file. {self.MANUAL_DOWNLOAD_INSTRUCTIONS}')
        return found

    def _unpacked_archive(self, dl_manager, url):
        """The folder of an archive, which is downloaded unless the manual folder has a copy.

        Raises:
            InputError: checksums.tsv has no checksum for the archive, or the file has another one
                or cannot be downloaded.
        """
        known = self.url_infos.get(url)
        if known is None:
            raise InputError(
                f'{url}: checksums.tsv has no checksum for it, so what is '
                'downloaded cannot be checked'
            )
        try:
            archive = dl_manager.download(url)
        except (OSError, tfds.download.DownloadError, NonMatchingChecksumError) as error:
            raise InputError(
                f'{url} cannot be downloaded, or is not the published file ({error}). Put '
                f'{known.filename} (sha256 {known.checksum}) from anywhere into the manual folder'
            ) from error
        # TFDS itself takes any file where its settings say to register checksums.
        if (found := storage.sha256(archive)) != known.checksum:
            raise InputError(
                f'{archive}: its sha256 is {found}, not {known.checksum}: it '
                'is not the published file'
            )
        return dl_manager.extract(archive)

    def _generate_examples(self, records: Iterable[dict]) -> Iterator[tuple[int, dict]]:
        for number, record in enumerate(records):
            spans = 'topics' if 'topics' in record else 'mentions'
            yield number, {**record, spans: np.array(record[spans], np.int32).reshape(-1, 2)}


class OpqlMetaqa(_PublicSet):
    """Multi-hop questions about films (Zhang et al., 2018), with their types."""

    HOMEPAGE = 'https://github.com/yuyuz/MetaQA'
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=f'{hops}-hop') for hops in HOPS]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        'Download MetaQA from the Google Drive folder that https://github.com/yuyuz/MetaQA names, '
        'and put its folders 1-hop, 2-hop'
        ' and 3-hop into the manual folder: <hops>-hop/vanilla/qa_{train,dev,test}.txt and '
        '<hops>-hop/qa_{train,dev,test}_qtype.txt'
    )

    def _split_generators(self, dl_manager):
        def read(split):
            hops = self.builder_config.name
            path = self._manual_file(dl_manager, f'{hops}/vanilla/qa_{split}.txt')
            kinds = (
                self._manual_file(dl_manager, f'{hops}/qa_{split}_qtype.txt')
                .read_text(encoding='utf-8')
                .split('\n')
            )
            records = metaqa.read_records(path, NO_ENTITIES, int(hops[0]))
            lines = [int(record['id'].rpartition('/')[2]) for record in records]
            if lines[-1] > len(kinds):
                raise InputError(
                    f'{path}: line {lines[-1]} has no type in qa_{split}_qtype.txt, which has '
                    f'{len(kinds)} lines'
                )
            return self._generate_examples(
                {**record, 'type': kinds[line - 1].strip()} for record, line in zip(records, lines)
            )

        return {'train': read('train'), 'validation': read('dev'), 'test': read('test')}


class OpqlWikimovies(_PublicSet):
    """Wikipedia articles about films, and one-hop questions about them (Miller et al., 2016)."""

    HOMEPAGE = 'https://research.fb.com/downloads/babi/'
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in ('questions', 'passages')]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        'Nothing is needed; wikimovies.tar.gz in the manual folder is used instead of a download.'
    )

    def _split_generators(self, dl_manager):
        folder = self._unpacked_archive(dl_manager, WIKIMOVIES) / 'movieqa'
        if self.builder_config.name == 'passages':
            documents = wikimovies.documents(folder / 'knowledge_source' / 'wiki.txt')
            return {'train': self._generate_examples(map(_passage, documents))}
        vocab = wikimovies.entity_vocab(folder / 'knowledge_source' / 'entities.txt')
        files = {'train': 'train', 'validation': 'dev', 'test': 'test'}
        path = lambda name: folder / 'questions' / 'wiki_entities' / f'wiki-entities_qa_{name}.txt'
        return {
            split: self._generate_examples(wikimovies.questions(path(name), vocab))
            for split, name in files.items()
        }


class OpqlWebqsp(_PublicSet):
    """WebQuestions with semantic parses over Freebase (Yih et al., 2016)."""

    VERSION = tfds.core.Version('1.1.0')
    RELEASE_NOTES = {
        '1.1.0': (
            'All questions take one hop, also those whose chain of relations '
            'goes through a compound value.'
        )
    }
    HOMEPAGE = 'https://www.microsoft.com/en-us/download/details.aspx?id=52763'
    BUILDER_CONFIGS = [Linked()]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        'Nothing is needed; WebQSP.zip in the manual folder is used instead of a download.'
    )

    def _split_generators(self, dl_manager):
        folder, resolver = (
            self._unpacked_archive(dl_manager, WEBQSP) / 'WebQSP' / 'data',
            self.builder_config.resolver(),
        )
        files = {
            split: webqsp.read(folder / f'WebQSP.{split}.json', resolver)
            for split in ('train', 'test')
        }
        return {
            split: self._generate_examples(with_topics(found, resolver.vocab)[0])
            for split, found in files.items()
        }


class OpqlComplexwebq(_PublicSet):
    """ComplexWebQuestions (Talmor and Berant, 2018).

    Its topics are Freebase ids; `Linked` must give their names.
    """

    HOMEPAGE = 'https://www.tau-nlp.sites.tau.ac.il/compwebq'
    BUILDER_CONFIGS = [Linked()]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        'Download ComplexWebQuestions_train.json and ComplexWebQuestions_dev.json from the Dropbox '
        'folder that https://www.tau-nlp.sites.tau.ac.il/compwebq names, and put them into the '
        'manual folder'
    )

    def _split_generators(self, dl_manager):
        resolver, splits = self.builder_config.resolver(), {}
        for split, name in {'train': 'train', 'validation': 'dev'}.items():
            path = self._manual_file(dl_manager, f'ComplexWebQuestions_{name}.json')
            records, coverage = with_topics(
                complexwebquestions.read(path, resolver), resolver.vocab
            )
            if not records:
                raise InputError(
                    f'{path}: no topic is named in any of {coverage.questions} '
                    'questions; give config=Linked(mid_to_qid=..., '
                    'qid_labels=...), or entities whose keys are Freebase ids'
                )
            splits[split] = self._generate_examples(records)
        return splits


class OpqlMsf(_PublicSet):
    """Multi-hop slot filling over Wikipedia (Dhingra et al., 2020).

    Entities are Wikidata ids, to which passages are linked.
    """

    HOMEPAGE = 'https://github.com/google-research/language/tree/master/language/labs/drkit'
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=f'{hops}-{kind}')
        for kind in ('hop', 'passages')
        for hops in HOPS
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        'Run wikidata/scripts/create_multihop_wikidata.sh of '
        'https://github.com/google-research/language/tree/master/language/labs/drkit'
        ' and put the folders onehop, twohop and threehop that it makes into the manual folder:'
        ' <hops>/{train,test}/queries.json and <hops>/{train,test}/paragraphs.json'
    )

    def _split_generators(self, dl_manager):
        hops, _, kind = self.builder_config.name.partition('-')
        folder = dict(zip('123', ('onehop', 'twohop', 'threehop')))[hops]

        def read(split):
            # The 1-hop files have the number of their part of Wikipedia in their name.
            part = '-0000{}-of-00010'.format(('train', 'test').index(split))
            name = 'paragraphs' if kind == 'passages' else 'queries'
            path = self._manual_file(
                dl_manager, f'{folder}/{split}/{name}.json', f'{folder}/{split}/{name}{part}.json'
            )
            return map(_passage, msf.documents(path)) if kind == 'passages' else msf.queries(path)

        return {split: self._generate_examples(read(split)) for split in ('train', 'test')}


def _passage(document) -> dict:
    """A document with the features of passages."""
    mentions = document.mentions or ()
    return {
        'id': document.id,
        'title': document.title,
        'text': document.text,
        'title_entity': document.title_entity or '',
        'mentions': [[mention.start, mention.end] for mention in mentions],
        'entities': [mention.entity for mention in mentions],
        'linked': document.mentions is not None,
    }


def records(examples) -> Iterator[dict]:
    """A split's examples, from `tfds.load` or a data source, as the readers' JSON objects."""
    text = lambda value: value.decode('utf-8') if isinstance(value, bytes) else value
    for example in tfds.as_numpy(examples) if isinstance(examples, tf.data.Dataset) else examples:
        record = {
            key: text(value.tolist() if hasattr(value, 'tolist') else value)
            for key, value in example.items()
        }
        record['entities'] = [text(entity) for entity in record['entities']]
        if 'answers' in record:
            record['answers'] = [text(answer) for answer in record['answers']]
        else:
            named = zip(record.pop('mentions'), record.pop('entities'))
            mentions = [
                {'start': start, 'end': end, 'entity': entity} for (start, end), entity in named
            ]
            record['mentions'] = mentions if record.pop('linked') else None
            record['title_entity'] = record['title_entity'] or None
        yield record


def write_jsonl(examples, path: str | os.PathLike) -> None:
    """Writes questions, and passages as a JSON Lines corpus, whole or not at all."""
    write_json_lines(path, records(examples))
