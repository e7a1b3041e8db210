// The text format of Prometheus, version 0.0.4, family by family. Private to net/.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "net/status/histogram.hpp"

namespace orcd::net {

class metrics_text {
 public:
  using label = std::pair<std::string_view, std::string_view>;

  /// Starts a family with its HELP and TYPE lines. Samples belong to it until the next family.
  metrics_text& family(std::string_view name, std::string_view type, std::string_view help);
  metrics_text& sample(double value, std::initializer_list<label> labels = {});
  /// A whole histogram family; bounds and sum are multiplied by `scale`.
  metrics_text& distribution(std::string_view name, std::string_view help, const histogram& h,
                             double scale = 1.0);

  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  void line(std::string_view suffix, std::initializer_list<label> labels, double value);
  std::string name_;
  std::string out_;
};

}  // namespace orcd::net
