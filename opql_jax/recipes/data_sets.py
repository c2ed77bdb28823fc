"""The data sets that recipes read, and where one gets them.

A data set is a folder of that name in the folder of the data sets; docs/how-to/experiments.md tells
what its files hold.
"""

# {data set: what it is, and where it comes from}.
SOURCES = {
    'bert-base-uncased': (
        'a BERT of Hugging Face (config.json, model.safetensors, a tokenizer): download '
        'google-bert/bert-base-uncased from its hub'
    ),
    'complexwebquestions': (
        'ComplexWebQuestions (Talmor and Berant, 2018), www.tau-nlp.org/compwebq, with names of '
        'the ids of Freebase'
    ),
    'linked_sentences': (
        'labelled sentences of KnowledgeNet (Mesquita et al., 2019) and TekGen (Agarwal et al., '
        '2021), github.com/diffbot/knowledge-net and '
        'github.com/google-research-datasets/KELM-corpus'
    ),
    'metaqa': (
        'MetaQA (Zhang et al., 2018), github.com/yuyuz/MetaQA, and a passage '
        'of Wikipedia for each film'
    ),
    'msf': (
        'MSF, which the script create_multihop_wikidata.sh of DrKIT (Dhingra et al., 2020) makes, '
        'language/labs/drkit/wikidata/scripts of github.com/google-research/language'
    ),
    'multihop': (
        'MuSiQue (Trivedi et al., 2022) and HotpotQA (Yang et al., 2018), '
        'github.com/StonyBrookNLP/musique and hotpotqa.github.io, each with '
        'its passages as one pool'
    ),
    'openqa': (
        'questions of WebQuestionsSP (Yih et al., 2016), one on a line, from '
        'WebQSP.zip of aka.ms/WebQSP'
    ),
    'qa': 'QAMR (Michael et al., 2018), github.com/uwnlp/qamr, one question a line',
    'redocred': (
        'Re-DocRED (Tan et al., 2022), github.com/tonytan48/Re-DocRED, with rel_info.json of '
        'github.com/thunlp/DocRED (Yao et al., 2019)'
    ),
    'trex': 'T-REx (Elsahar et al., 2018), hadyelsahar.github.io/t-rex',
    'webqsp': 'WebQuestionsSP (Yih et al., 2016), WebQSP.zip of aka.ms/WebQSP',
    'wiki64': 'Wiki80 (Han et al., 2019), github.com/thunlp/OpenNRE',
    'wikipedia': 'a dump of Wikipedia, pages-articles.xml.bz2, from dumps.wikimedia.org',
    'wikispeedia': (
        'Wikispeedia (West et al., 2009), snap.stanford.edu/data/wikispeedia.html: articles of the '
        'Schools Wikipedia of 2007 and the links between them'
    ),
}


def data_set(name: str) -> str:
    """The data set of a file, such as 'metaqa' of 'metaqa/kb.txt'."""
    return name.partition('/')[0]
