// Damage to a file, reproducible from its random numbers.
#pragma once

#include <string>

#include "rng.h"

namespace adversary {

// Each returns a description of the damage.
std::string flip_bit(const std::string& file, int64_t byte, int bit);
std::string truncate_to(const std::string& file, int64_t size);
std::string append_bytes(const std::string& file, int64_t count, Rng& rng);
std::string zero_block(const std::string& file, int64_t begin, int64_t size);
void swap_files(const std::string& one, const std::string& other);

// Mostly one flipped bit; sometimes another kind of damage. The file is never the same afterwards.
std::string damage_at_random(const std::string& file, Rng& rng);

}  // namespace adversary
