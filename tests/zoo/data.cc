#include "tests/zoo/data.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <variant>

#include "cells/check.h"
#include "loadgen/corpus/corpus.h"
#include "loadgen/corpus/like.h"

namespace cellbatch::zoo {

std::string DataFolder() {
  const char* named = std::getenv("CELLBATCH_DATA");
  return named != nullptr && *named != '\0' ? named : "../shared/data";
}

namespace {

template <typename Item>
Data<Item> Read(const std::string& name, std::vector<Item> (*like)()) {
  Data<Item> data;
  absl::StatusOr<corpus::Corpus> read = corpus::ReadCorpus(DataFolder() + "/" + name);
  if (absl::IsNotFound(read.status())) {
    data.items = like();
    data.is_real = false;
    data.source = fmt::format("synthetic, of the statistics of {} (which is not here)", name);
    fmt::print("SYNTHETIC DATA instead of {}: CELLBATCH_DATA names no folder that has it\n", name);
    return data;
  }
  Check(read.ok(), std::string(read.status().message()));
  auto* items = std::get_if<std::vector<Item>>(&read->items);
  Check(items != nullptr, fmt::format("{} holds {}: not what its README says", name, read->kind()));
  data.items = std::move(*items);
  data.source = name;
  return data;
}

std::vector<Lengths> LengthsLikeEuroparl() {
  std::vector<Lengths> lengths;
  for (const Translation& pair : corpus::PairsLikeEuroparl()) {
    lengths.push_back(
        {static_cast<int32_t>(pair.source.size()), static_cast<int32_t>(pair.target.size())});
  }
  return lengths;
}

}  // namespace

Data<Words> WikigoldSentences() {
  return Read<Words>("wikigold_en.txt", corpus::SentencesLikeWikigold);
}

Data<Words> WikinerSentences() {
  return Read<Words>("wikiner_en_sample.txt", corpus::SentencesLikeWikigold);
}

Data<Translation> EuroparlPairs() {
  return Read<Translation>("europarl_de_en_tok.tsv", corpus::PairsLikeEuroparl);
}

Data<Lengths> IwsltLengths() {
  return Read<Lengths>("iwslt15_lengths_tst2012.txt", LengthsLikeEuroparl);
}

Data<BinaryTree> SstTrees() { return Read<BinaryTree>("sst_test.ptb", corpus::TreesLikeSst); }

Data<BinaryTree> SstTrainTrees() { return Read<BinaryTree>("sst_train.ptb", corpus::TreesLikeSst); }

Data<DependencyTree> EwtTrees() {
  return Read<DependencyTree>("ud_ewt_test.tsv", corpus::TreesLikeEwt);
}

Data<Lattice> WeiboLattices() {
  return Read<Lattice>("weibo_lattices.jsonl", corpus::LatticesLikeWeibo);
}

Data<Lattice> EdbatchLattices() {
  return Read<Lattice>("edbatch_lattices_train.jsonl", corpus::LatticesLikeWeibo);
}

}  // namespace cellbatch::zoo
