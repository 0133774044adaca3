#!/usr/bin/env bash
# Proves the operators on a real GPU: on_device.sh FOLDER [OUT]. The folder holds cuda_device_check and libbitpress_ops.so, which
# `./dev cuda --pack` put there. It needs a driver alone; sessions are tested where python3 has onnxruntime-gpu. All takes less than
# eight minutes. Figures go to OUT/figures.json.
set -uo pipefail
folder="${1:?a folder}" out="${2:-.}" failed=0

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
timeout 300 "$folder/cuda_device_check" "$out/figures.json"
case $? in 0) ;; 77) exit 77 ;; *) failed=1 ;; esac

if python3 -c 'import onnx, onnxruntime' 2>/dev/null; then
  timeout 170 python3 "$folder/sessions.py" "$folder/libbitpress_ops.so" ${QUARK_MODELS:+--quark "$QUARK_MODELS"} ${WITH_CUDNN:+--cudnn}
  case $? in 0 | 77) ;; *) failed=1 ;; esac
else
  echo "skipped: sessions, python3 has no onnxruntime and onnx"
fi
[ "$failed" = 0 ] && echo "== all passed" || echo "== FAILED"
exit "$failed"
