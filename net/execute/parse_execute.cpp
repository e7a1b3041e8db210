#include "net/execute/parse_execute.hpp"

#include <utility>

#include "net/execute/execute_fields.hpp"
#include "net/json/json_reader.hpp"

namespace orcd::net {

using engine::result;

result<execute_request> parse_execute(std::string_view body, const request_limits& limits) {
  execute_fields fields(limits);
  if (const auto read = read_json_object(body, fields); !read) return read.error();
  return std::move(fields).finish();
}

}  // namespace orcd::net
