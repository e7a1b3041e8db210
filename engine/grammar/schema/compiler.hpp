// Compiles JSON Schema to rules. Throws grammar_failure with the path of what is not understood. One thread.
// One object compiles one schema document; several may share a program_builder. Documented in grammar.hpp.
#pragma once

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/expression.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema/keywords.hpp"
#include "engine/grammar/schema/value_form.hpp"

namespace orcd::engine::grammar {

struct schema_limits {
  std::uint32_t subschemas = 8'192;
  std::uint32_t properties = 512;        ///< properties of one object
  std::uint32_t values = 4'096;          ///< values of one enum
  std::uint32_t items = 1'024;           ///< minItems and maxItems
  std::uint32_t characters = 1U << 20U;  ///< minLength; a larger maxLength is no bound
  std::uint32_t branches = 128;          ///< branches of one anyOf
  std::uint32_t patterns = 8;            ///< of patternProperties
  std::uint32_t members = 256;           ///< minProperties and maxProperties of a map
  std::uint32_t unique = 8;              ///< values of the items of a uniqueItems array
  std::uint32_t counted = 4'096;         ///< pairs of numbers that a count of items or members takes
  std::uint32_t step = 1'000;            ///< multipleOf
};

/// The rules that schemas share: white space, plain numbers, any value. One object for each program and form.
class json_grammar {
 public:
  explicit json_grammar(program_builder& builder, value_form form = {});
  [[nodiscard]] const value_form& form() const noexcept { return form_; }
  [[nodiscard]] expr gap() const { return gap_; }
  /// A number, or an integer, without bounds.
  [[nodiscard]] expr plain_number(bool whole);
  /// A text of so many characters.
  [[nodiscard]] expr any_text(std::uint32_t least = 0, std::uint32_t most = unbounded);
  /// A text whose value matches the pattern; each pattern is compiled once.
  [[nodiscard]] expr matching(std::string_view pattern, const std::string& where);
  /// The name of a member.
  [[nodiscard]] expr any_name();
  /// A name that matches the pattern, where that is all that is asked.
  [[nodiscard]] expr name_matching(std::string_view pattern, const std::string& where);
  [[nodiscard]] expr any_value();
  [[nodiscard]] expr any_object();

 private:
  void define_any();
  program_builder& builder_;
  value_form form_;
  expr gap_;
  std::optional<expr> numbers_[2], text_, name_;
  std::map<std::string, expr, std::less<>> patterns_;
  bool defined_ = false;
  rule_id value_ = 0, object_ = 0;
};

/// What is valid under a schema that stands within another grammar. Throws grammar_failure.
[[nodiscard]] expr compile_inner_schema(program_builder& builder, const boost::json::value& schema);

class schema_compiler {
 public:
  /// `root` must outlive it.
  schema_compiler(program_builder& builder, json_grammar& shared, const boost::json::value& root, bool strict,
                  const schema_limits& limits = {});

  /// Values that are valid under the whole document, whose path is `where`.
  [[nodiscard]] expr whole(const std::string& where) { return value(root_, where, 0); }
  /// Values that are valid under a part of the document.
  [[nodiscard]] expr part(const boost::json::value& schema, const std::string& where) {
    return value(schema, where, 0);
  }
  /// The properties that are always there; in strict mode all of these, where the schema does not say.
  [[nodiscard]] name_set required_names(const boost::json::object& schema, const boost::json::object& named,
                                        const std::string& where) const;
  /// Refuses an object with these properties that strict mode does not allow.
  void check_strict(const boost::json::object& schema, const boost::json::object& named,
                    const std::string& where) const;

 private:
  using object = boost::json::object;

  [[nodiscard]] expr value(const boost::json::value& schema, const std::string& where, std::uint32_t depth);
  [[nodiscard]] expr reference(const boost::json::value& target, const std::string& where,
                               std::uint32_t depth);
  [[nodiscard]] expr flat(const object& schema, const std::string& where, std::uint32_t depth);
  [[nodiscard]] expr choices(const object& schema, const std::string& where, std::uint32_t depth);
  [[nodiscard]] const boost::json::array& alternatives(const object& schema, const char* keyword,
                                                       const std::string& at) const;
  [[nodiscard]] expr any_of(const object& schema, const std::string& where, std::uint32_t depth);
  [[nodiscard]] expr one_of(const object& schema, const std::string& where, std::uint32_t depth);
  /// Narrows `from` to what alternative `number` of a oneOf refuses.
  void leave_out(object& from, const boost::json::value& other, const std::string& where, std::size_t number,
                 std::uint32_t depth) const;
  /// A part that there need not be: where alternatives are tried, one that is impossible is left out.
  [[nodiscard]] expr part(const boost::json::value& schema, const std::string& where, std::uint32_t depth,
                          bool required);
  /// Whether a value of enum is valid under another keyword.
  [[nodiscard]] bool fits(const boost::json::value& value, const object& schema, const std::string& keyword,
                          const std::string& at);
  [[nodiscard]] expr values(const object& schema, const std::string& where);
  [[nodiscard]] expr of_type(std::string_view type, const object& schema, const std::string& where,
                             std::uint32_t depth);
  [[nodiscard]] expr string(const object& schema, const std::string& where);
  [[nodiscard]] expr number(const object& schema, bool whole, const std::string& where);
  [[nodiscard]] expr decimal_multiples(const object& schema, const std::string& where);
  [[nodiscard]] expr multiples(const object& schema, const std::vector<std::uint32_t>& excluded,
                               const expr& body, const std::string& where);
  /// What an array's keywords say of its items.
  struct item_plan {
    std::span<const boost::json::value> first;  ///< prefixItems
    const boost::json::value* rest = nullptr;   ///< items; null where any value may come
    bool closed = false;                        ///< none may come behind `first`
    std::uint32_t least = 0, most = unbounded;

    /// The schema of an item; null where any value may come.
    [[nodiscard]] const boost::json::value* at(std::size_t i) const {
      return i < first.size() ? &first[i] : rest;
    }
    /// How many of the first items have schemas of their own, and one more for the others.
    [[nodiscard]] std::size_t kinds() const {
      return std::min<std::size_t>(first.size() + (closed ? 0 : 1), most);
    }
  };
  struct counted_items {
    std::uint32_t least = 0, most = unbounded;
  };
  [[nodiscard]] item_plan items_of(const object& schema, const std::string& where) const;
  /// How many items must be valid under `contains`.
  [[nodiscard]] counted_items counts_of(const object& schema, const std::string& where) const;
  [[nodiscard]] expr item_of_kind(const boost::json::value* item, const boost::json::value& contained,
                                  bool valid, const std::string& where, std::uint32_t depth);
  [[nodiscard]] expr containing_items(const object& schema, const item_plan& plan, const std::string& where,
                                      std::uint32_t depth);
  [[nodiscard]] expr unique_items(const object& schema, const item_plan& plan, const std::string& where);
  [[nodiscard]] expr array(const object& schema, const std::string& where, std::uint32_t depth);
  [[nodiscard]] expr members(const object& schema, const std::string& where, std::uint32_t depth);
  [[nodiscard]] expr further_member(const object& schema, const boost::json::object& named,
                                    const std::string& where, std::uint32_t depth);
  void add_pattern_members(const boost::json::object& patterns, const std::vector<expr>& names,
                           const std::string& where, std::uint32_t depth, std::vector<expr>& out);
  /// Adds to a property what the patterns that its name matches ask for; whether there is one.
  [[nodiscard]] bool add_patterns(boost::json::key_value_pair& property, const boost::json::object& patterns,
                                  const std::string& where);
  [[nodiscard]] expr map(const object& schema, const std::string& where, std::uint32_t depth);
  /// The members in this order; their number is bounded where that says something.
  [[nodiscard]] expr counted_members(const object& schema, std::vector<expr> parts,
                                     std::vector<bool> required, bool open, const std::string& where) const;
  /// All values that are valid under a flat schema, and perhaps others; nothing where they are not finitely
  /// many.
  [[nodiscard]] std::optional<boost::json::array> candidates(const object& schema,
                                                             const std::string& where) const;
  struct finite_items;
  [[nodiscard]] finite_items finite_items_of(const item_plan& plan, const std::string& where);
  [[nodiscard]] boost::json::object named_properties(const object& schema, const std::string& where);
  [[nodiscard]] std::uint32_t count(const object& schema, const char* keyword, std::uint32_t otherwise,
                                    std::uint32_t limit, const std::string& where) const;

  program_builder& builder_;
  json_grammar& shared_;
  std::optional<boost::json::value> rewritten_;  ///< the document, where its references are not pointers
  const boost::json::value& root_;
  bool strict_;
  schema_limits limits_;
  std::uint32_t subschemas_ = 0;
  std::uint32_t trying_ = 0;  ///< alternatives that are being compiled inside one another
  std::map<const boost::json::value*, rule_id> references_;
};

}  // namespace orcd::engine::grammar
