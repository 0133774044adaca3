// Calibration files (.bpc): a CalibrationTable in bytes. The format is described in
// docs/calibration.md. The same table gives the same bytes, on every machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "calibrate/calibration_table.h"

namespace bitpress::calibrate {

inline constexpr std::string_view kCalibrationMagic = "BITPCALB";

std::string ToBytes(const CalibrationTable& table);

// Reads what ToBytes gave. The bytes may come from anywhere: sizes are checked before anything is
// allocated. Throws Error(kInvalidArgument) if they are no calibration file, of a newer version,
// damaged (the checksum differs), or contradict themselves.
CalibrationTable FromBytes(std::string_view bytes);

// The same with a file. Throw Error naming it, kIo if it cannot be read or written. Written all at
// once: there is the old file or the new one.
void SaveCalibration(const std::filesystem::path& path, const CalibrationTable& table);
CalibrationTable LoadCalibration(const std::filesystem::path& path);

// Whether a file starts like a calibration file. False also where it cannot be read.
bool IsCalibrationFile(const std::filesystem::path& path);

}  // namespace bitpress::calibrate
