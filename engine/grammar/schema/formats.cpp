#include "engine/grammar/schema/formats.hpp"

#include <array>

namespace orcd::engine::grammar {

namespace {

// Years 0001 to 9999; months with their days; 29 February of leap years.
#define ORCD_YEAR "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define ORCD_LEAP_YEAR "(([0-9]{2}(0[48]|[2468][048]|[13579][26]))|(0[48]|[2468][048]|[13579][26])00)"
#define ORCD_DATE                                                                                            \
  "(" ORCD_YEAR                                                                                              \
  "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))" \
  "|" ORCD_LEAP_YEAR "-02-29)"
#define ORCD_TIME \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define ORCD_HEX "[0-9a-fA-F]"
#define ORCD_LABEL "[A-Za-z0-9]+(-[A-Za-z0-9]+)*"
#define ORCD_OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

struct named_pattern {
  std::string_view name, pattern;
};

constexpr auto patterns = std::to_array<named_pattern>({
    {"date-time", "^" ORCD_DATE "T" ORCD_TIME "$"},
    {"date", "^" ORCD_DATE "$"},
    {"time", "^" ORCD_TIME "$"},
    {"uuid", "^" ORCD_HEX "{8}-" ORCD_HEX "{4}-" ORCD_HEX "{4}-" ORCD_HEX "{4}-" ORCD_HEX "{12}$"},
    {"email", "^[A-Za-z0-9_%+-]+(\\.[A-Za-z0-9_%+-]+)*@" ORCD_LABEL "(\\." ORCD_LABEL "){1,3}$"},
    {"ipv4", "^" ORCD_OCTET "(\\." ORCD_OCTET "){3}$"},
    {"hostname", "^" ORCD_LABEL "(\\." ORCD_LABEL "){0,3}$"},
});

#undef ORCD_YEAR
#undef ORCD_LEAP_YEAR
#undef ORCD_DATE
#undef ORCD_TIME
#undef ORCD_HEX
#undef ORCD_LABEL
#undef ORCD_OCTET

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  for (const auto& [name, pattern] : patterns) {
    if (name == format) return pattern;
  }
  return {};
}

}  // namespace orcd::engine::grammar
