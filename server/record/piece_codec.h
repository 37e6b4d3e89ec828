// The shape of a piece of a request, to and from its message in a record.
#ifndef CELLBATCH_SERVER_RECORD_PIECE_CODEC_H_
#define CELLBATCH_SERVER_RECORD_PIECE_CODEC_H_

#include <optional>

#include "proto/record.pb.h"
#include "scheduler/record/recorded_run.h"

namespace cellbatch {

void Describe(const PieceShape& shape, disk::RecordedPiece& piece);
// None: its lists are not as long as each other.
std::optional<PieceShape> ShapeOf(const disk::RecordedPiece& piece);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_RECORD_PIECE_CODEC_H_
