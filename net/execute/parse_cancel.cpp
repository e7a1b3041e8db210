#include "net/execute/parse_cancel.hpp"

#include <utility>

#include "net/execute/execute_fields.hpp"
#include "net/json/json_reader.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

/// Takes job_id when it is wanted, and refuses every other field.
class cancel_fields final : public field_sink {
 public:
  explicit cancel_fields(bool wants_job_id) : wants_job_id_(wants_job_id) {}

  result<void> on_field(std::string_view name) override {
    if (!wants_job_id_ || name != "job_id") return unknown_field(name);
    if (std::exchange(seen_, true)) return refuse("is given twice");
    return {};
  }
  result<void> on_string(std::string&& value) override {
    job_id = std::move(value);
    return check_job_id(job_id);
  }
  result<void> on_scalar(const json_scalar& value) override {
    return refuse("must be a string, it is " + std::string(kind_name(value)));
  }
  result<void> on_array() override { return refuse("must be a string, it is an array"); }
  result<void> on_element(std::string&&) override { return refuse("must be a string"); }
  std::string_view field() const noexcept override { return "job_id"; }

  std::string job_id;

 private:
  static error refuse(const std::string& what) {
    return error(errc::invalid_request, "'job_id' " + what, "job_id");
  }
  bool wants_job_id_;
  bool seen_ = false;
};

}  // namespace

result<std::string> parse_cancel(std::string_view body) {
  cancel_fields fields(true);
  if (const auto read = read_json_object(body, fields); !read) return read.error();
  if (fields.job_id.empty()) return error(errc::invalid_request, "'job_id' is missing", "job_id");
  return std::move(fields.job_id);
}

result<void> parse_shutdown(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return {};
  cancel_fields fields(false);
  return read_json_object(body, fields);
}

}  // namespace orcd::net
