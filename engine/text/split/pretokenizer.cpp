#include "engine/text/split/pretokenizer.hpp"

#include "engine/base/ensure.hpp"
#include "engine/text/split/scan.hpp"

namespace orcd::engine {

pretokenizer::pretokenizer(const std::vector<split_rule>& stages) : table_(&unicode_table::instance()) {
  for (const split_rule stage : stages) {
    split_scanner found = split::find_word_scanner(stage);
    if (found == nullptr) found = split::find_run_scanner(stage);
    if (found == nullptr) found = split::find_digit_scanner(stage);
    ORCD_ENSURE(found != nullptr);
    scanners_.push_back(found);
  }
}

}  // namespace orcd::engine
