// Where the parts of a config.textproto were written, for error texts.
#ifndef CELLBATCH_SERVER_ASSEMBLE_CONFIG_PLACES_H_
#define CELLBATCH_SERVER_ASSEMBLE_CONFIG_PLACES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

struct ConfigPlaces {
  std::vector<std::string> cell_types;  // "config.textproto:12", one each
  std::map<std::string, std::string, std::less<>>
      fields;  // the same of each field at the top that is set

  std::string Of(std::string_view field) const {
    const auto found = fields.find(field);
    return found == fields.end() ? "config.textproto" : found->second;
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_CONFIG_PLACES_H_
