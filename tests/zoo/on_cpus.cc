#include "tests/zoo/computes.h"

namespace cellbatch::zoo {

// As many as there are; larger batches would cost a minute.
Computes WhatComputes() { return {{"--batch-limit=64"}, {}}; }

}  // namespace cellbatch::zoo
