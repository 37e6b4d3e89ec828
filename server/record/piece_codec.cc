#include "server/record/piece_codec.h"

#include <algorithm>

namespace cellbatch {

void Describe(const PieceShape& shape, disk::RecordedPiece& piece) {
  bool stops = false;
  for (const SubgraphShape& s : shape.subgraphs) {
    piece.add_type(s.type);
    piece.add_table(s.table);
    piece.add_length(s.length);
    piece.add_links(s.num_links);
    piece.add_returns(s.num_returns);
    piece.add_keeps_rows(s.keeps_rows);
    stops |= s.stop_column >= 0;
  }
  const auto any = [&](auto says) {
    return std::any_of(shape.subgraphs.begin(), shape.subgraphs.end(), says);
  };
  const bool phases = any([](const SubgraphShape& s) { return s.phase != 0; });
  const bool places = any([](const SubgraphShape& s) { return s.place >= 0; });
  for (const SubgraphShape& s : shape.subgraphs) {
    if (phases) piece.add_phase(s.phase);
    if (places) piece.add_place(s.place);
  }
  for (const SubgraphShape& s : shape.subgraphs) {
    if (!stops) break;
    piece.add_stop_column(s.stop_column);
    piece.add_stop_value(s.stop_value);
  }
  for (const LinkShape& l : shape.links) {
    piece.add_link_from(l.from);
    piece.add_link_input(l.input);
    piece.add_link_first(l.first);
    piece.add_link_stride(l.stride);
  }
  for (const ReturnShape& r : shape.returns) {
    piece.add_return_column(r.column);
    piece.add_return_first(r.first);
    piece.add_return_count(r.count);
  }
  piece.set_grows(shape.grows);
}

std::optional<PieceShape> ShapeOf(const disk::RecordedPiece& piece) {
  const int n = piece.type_size(), links = piece.link_from_size(),
            ranges = piece.return_first_size();
  const int stops = piece.stop_column_size(), phases = piece.phase_size(),
            places = piece.place_size();
  const bool even = piece.table_size() == n && piece.length_size() == n &&
                    piece.links_size() == n && piece.returns_size() == n &&
                    piece.keeps_rows_size() == n && (stops == 0 || stops == n) &&
                    (phases == 0 || phases == n) && (places == 0 || places == n) &&
                    piece.stop_value_size() == stops && piece.link_input_size() == links &&
                    piece.link_first_size() == links && piece.link_stride_size() == links &&
                    piece.return_column_size() == ranges && piece.return_count_size() == ranges;
  if (!even) return std::nullopt;
  PieceShape shape;
  shape.grows = piece.grows();
  for (int i = 0; i < n; ++i) {
    shape.subgraphs.push_back({.type = piece.type(i),
                               .table = piece.table(i),
                               .length = piece.length(i),
                               .num_links = piece.links(i),
                               .num_returns = piece.returns(i),
                               .keeps_rows = piece.keeps_rows(i),
                               .stop_column = stops == 0 ? -1 : piece.stop_column(i),
                               .stop_value = stops == 0 ? 0 : piece.stop_value(i),
                               .phase = phases == 0 ? 0 : piece.phase(i),
                               .place = places == 0 ? -1 : piece.place(i)});
  }
  for (int i = 0; i < links; ++i) {
    shape.links.push_back(
        {piece.link_from(i), piece.link_input(i), piece.link_first(i), piece.link_stride(i)});
  }
  for (int i = 0; i < ranges; ++i) {
    shape.returns.push_back({piece.return_column(i), piece.return_first(i), piece.return_count(i)});
  }
  return shape;
}

}  // namespace cellbatch
