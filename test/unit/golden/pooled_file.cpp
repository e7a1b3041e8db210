#include "test/unit/golden/pooled_file.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace orcd::test {

namespace json = boost::json;

pooled_use read_pooled_use(const std::string& name) {
  const std::string folder = ORCD_TEST_DATA "/embedding/";
  std::ifstream in(folder + name + ".json");
  if (!in) throw std::runtime_error("cannot open " + folder + name + ".json");
  std::ostringstream text;
  text << in.rdbuf();
  const json::value root = json::parse(text.str());
  pooled_use out;
  out.model = folder + std::string(root.at("model").as_string());
  out.pooling = static_cast<engine::pooling_kind>(root.at("pooling").to_number<int>());
  out.causal = root.at("causal").as_bool();
  for (const auto& c : root.at("cases").as_array()) {
    pooled_case one;
    for (const auto& t : c.at("tokens").as_array()) one.tokens.push_back(t.to_number<engine::token_id>());
    one.second = c.at("second").to_number<std::uint32_t>();
    for (const auto& v : c.at("pooled").as_array()) one.pooled.push_back(v.to_number<float>());
    out.cases.push_back(std::move(one));
  }
  return out;
}

void pooled_difference::raise_to(const pooled_difference& other) noexcept {
  relative = std::max(relative, other.relative);
  largest = std::max(largest, other.largest);
  cosine = std::max(cosine, other.cosine);
}

pooled_difference compare_pooled(std::span<const float> ours, std::span<const float> reference) {
  if (ours.size() != reference.size()) throw std::runtime_error("results of different sizes");
  double aa = 0.0, ab = 0.0, bb = 0.0, dd = 0.0;
  pooled_difference out;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double a = ours[i], b = reference[i];
    aa += a * a;
    ab += a * b;
    bb += b * b;
    dd += (a - b) * (a - b);
    out.largest = std::max(out.largest, std::fabs(a - b));
  }
  out.relative = std::sqrt(dd / bb);
  out.cosine = 1.0 - ab / std::sqrt(aa * bb);
  return out;
}

}  // namespace orcd::test
