// The whole library. Link `bitpress::bitpress`, or with pkg-config `bitpress`.
#pragma once

#include "bitpress/auto.h"
#include "bitpress/calibrate.h"
#include "bitpress/error.h"
#include "bitpress/evaluate.h"
#include "bitpress/quantize.h"
#include "bitpress/runtime.h"
#include "bitpress/samples.h"
#include "bitpress/version.h"
