#include "net/json/base64.hpp"

#include <openssl/evp.h>

#include <algorithm>

#include "net/json/text.hpp"

namespace orcd::net {

void append_base64(std::string& out, std::string_view bytes) {
  const std::size_t at = out.size();
  // EVP_EncodeBlock writes a NUL behind its text.
  out.resize(at + (bytes.size() + 2) / 3 * 4 + 1);
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + at),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.pop_back();
}

std::optional<std::string> decode_base64(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(),
                                    [](char c) { return is_alphanumeric(c) || c == '+' || c == '/'; });
  const auto padding = static_cast<std::size_t>(text.end() - end);
  const bool padded = std::all_of(end, text.end(), [](char c) { return c == '='; });
  // EVP_DecodeBlock itself would also take white space.
  if (text.size() % 4 != 0 || padding > 2 || !padded) return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  out.resize(out.size() - padding);
  return out;
}

}  // namespace orcd::net
