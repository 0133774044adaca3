// BITPRESS_API marks what the shared library shows.
#pragma once

#define BITPRESS_API __attribute__((visibility("default")))
