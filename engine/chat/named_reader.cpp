// A call that is the name of a function and its arguments as a JSON object. Only a name that is offered
// begins one: an answer may begin with any word.
#include <string>
#include <utility>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/call_bodies.hpp"

namespace orcd::engine {

namespace {

class named_reader final : public call_body {
 public:
  explicit named_reader(std::shared_ptr<const argument_types> types) : types_(std::move(types)) {}

  verdict push(char c, std::string& arguments) override {
    if (in_name_) {
      if (is_name(c)) {
        if (name_.size() >= name_bytes_max) return verdict::wrong;
        name_ += c;
        return verdict::more;
      }
      if (!is_space(c) || (types_ && !types_->has(name_))) return name_.empty() ? blank(c) : verdict::wrong;
      in_name_ = name_.empty();
      return verdict::more;
    }
    const auto v = arguments_.push(c, arguments);
    if (v == argument_stream::verdict::done) return verdict::done;
    return v == argument_stream::verdict::more ? verdict::more : verdict::wrong;
  }
  bool close(std::string&) override { return false; }
  bool leave(std::string& arguments) override {
    arguments_.leave(arguments);
    return arguments_.started();
  }
  void spoil(char c, std::string& arguments) override { arguments_.spoil(c, arguments); }
  bool committed() const noexcept override { return arguments_.started(); }
  const std::string& name() const noexcept override { return name_; }
  bool in_string() const noexcept override { return arguments_.in_string(); }

 private:
  [[nodiscard]] static verdict blank(char c) noexcept { return is_space(c) ? verdict::more : verdict::wrong; }

  std::shared_ptr<const argument_types> types_;
  bool in_name_ = true;
  std::string name_;
  argument_stream arguments_;
};

}  // namespace

std::unique_ptr<call_body> make_named_reader(std::shared_ptr<const argument_types> types) {
  return std::make_unique<named_reader>(std::move(types));
}

}  // namespace orcd::engine
