// A model that decodes, for tests of services that stream: its words are what the fake scheduler tells.
#ifndef CELLBATCH_TESTS_TESTING_DECODER_MODEL_H_
#define CELLBATCH_TESTS_TESTING_DECODER_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "cells/check.h"
#include "cells/unfold/encoder_decoder_unfolder.h"
#include "tests/testing/builders.h"

namespace cellbatch {

inline constexpr int32_t kEndOfDecoder = 0;  // the word that ends a sequence

// A translator of 100 words and at most 40 steps whose cells compute nothing: its words are what the fake scheduler tells.
inline std::shared_ptr<Model> DecoderModel() {
  testing::ModelBuilder builder("decoder");
  const CellTypeId encoder = builder.Add(testing::TokenLstmCell(100, 3, 2), 1);
  testing::CellBuilder bridge("bridge"), decoder("decoder");
  const ValueId h = bridge.Read("layer0", "h", 2), c = bridge.Read("layer0", "c", 2);
  bridge.Leave("h", bridge.Tanh(h));
  bridge.Leave("c", bridge.Tanh(c));
  bridge.Leave("word", bridge.Op1(OpKind::kArgMax, h));
  const ValueId before = decoder.Carry("before", "h", 2);
  decoder.Leave("h", decoder.Tanh(before));
  decoder.Leave("c", decoder.Tanh(decoder.Carry("before", "c", 2)));
  decoder.Carry("before", "word", 1, ElementType::kInt32);
  decoder.Leave("word", decoder.Op1(OpKind::kArgMax, before));
  EncoderDecoderSpec spec;
  spec.bridge = builder.Add(bridge.Build(), 2);
  builder.Connect(spec.bridge, "layer0", encoder);
  spec.decoder = builder.Add(decoder.Build(), 3);
  std::shared_ptr<Model> model = builder.Build();
  spec.encoder.input = testing::FindTable(*model, "token");
  spec.encoder.layers = {{encoder, {}}};
  spec.encoder.vocabulary_size = 100;
  spec.encoder.max_sequence_length = 50;
  spec.end_of_sequence = kEndOfDecoder;
  spec.max_decode_steps = 40;
  auto unfolder = EncoderDecoderUnfolder::Create(spec, *model);
  Check(unfolder.ok(), unfolder.status().ToString());
  model->id = ModelId(1);
  model->signature = (*unfolder)->MakeSignature();
  model->unfolder = *std::move(unfolder);
  return model;
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_DECODER_MODEL_H_
