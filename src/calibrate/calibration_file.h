// Calibration files (.bpc), which keep a CalibrationTable for later runs. docs/calibration.md
// describes the format. The same table gives the same bytes, on every machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "calibrate/calibration_table.h"

namespace bitpress::calibrate {

inline constexpr std::string_view kCalibrationMagic = "BITPCALB";

// Returns the bytes of a file.
std::string ToBytes(const CalibrationTable& table);

// Reads the bytes that ToBytes gave. They may come from anywhere: sizes are checked before anything
// is allocated. Throws Error(kInvalidArgument) if they are no calibration file, of a newer version,
// damaged (the checksum differs), or contradict themselves.
CalibrationTable FromBytes(std::string_view bytes);

// Save and load a file. Saving writes all of it at once, so that there is the old file or the new
// one. Throw as FromBytes, and Error(kIo) if the file cannot be read or written, naming the file.
void SaveCalibration(const std::filesystem::path& path, const CalibrationTable& table);
CalibrationTable LoadCalibration(const std::filesystem::path& path);

// Returns whether a file starts like a calibration file, and false if it cannot be read.
bool IsCalibrationFile(const std::filesystem::path& path);

}  // namespace bitpress::calibrate
