// The block types of GGUF files: how many elements and bytes a block has, and what its bits mean.
// The scalar references; tests hold them to the Python package gguf. The layouts are those of
// llama.cpp (ggml/src/ggml-common.h, MIT), in our own words. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "interop/file_weight.h"

namespace bitpress::interop {

// One type of blocks with codes.
struct BlockType {
  uint32_t id = 0;  // in the file
  std::string_view name;
  int64_t num_elements = 0;  // of a block in the file
  int64_t num_bytes = 0;
  int64_t block_size = 0;   // elements that share a scale
  std::string_view format;  // of ours that holds its codes
  bool has_offsets = false;
  // Decodes a block: codes around 0, scales, and offsets, if the type has them.
  void (*decode)(const uint8_t* bytes, int16_t* codes, float* scales, float* offsets) = nullptr;
};

// Returns all types with codes that are read here.
std::span<const BlockType> AllBlockTypes();
const BlockType* FindBlockType(uint32_t id);  // null: it is none of them

// Returns the matrix in `bytes`. REQUIRES: row_length is a multiple of type.num_elements, and the
// bytes are as many as the matrix takes.
FileWeight DecodeBlocks(const BlockType& type, std::span<const std::byte> bytes, int64_t num_rows,
                        int64_t row_length);

}  // namespace bitpress::interop
