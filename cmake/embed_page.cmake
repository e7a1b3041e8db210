# Turns the page into a C++ source. Usage: cmake -DPAGE=FILE -DOUTPUT=FILE -P embed_page.cmake
# The policy allows exactly the page's own style and script, by the SHA-256 of what stands between their tags.
set(size_max 40960)

# base64_of(OUT HEX): base64 of the 32 bytes that 64 hexadecimal digits say.
function(base64_of out hex)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  # 64 digits are 21 groups of three (two characters each) and one digit more.
  foreach(at RANGE 0 60 3)
    string(SUBSTRING "${hex}" ${at} 3 group)
    foreach(shift 6 0)
      math(EXPR index "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 character)
      string(APPEND text "${character}")
    endforeach()
  endforeach()
  string(SUBSTRING "${hex}" 63 1 digit)
  math(EXPR index "0x${digit} << 2")
  string(SUBSTRING "${alphabet}" ${index} 1 character)
  set(${out} "${text}${character}=" PARENT_SCOPE)
endfunction()

# source_of(OUT TAG): the CSP source of the one element <TAG>...</TAG>.
function(source_of out tag)
  string(REGEX MATCHALL "<${tag}[ >]" openings "${page}")
  list(LENGTH openings count)
  string(FIND "${page}" "<${tag}>" begin)
  string(FIND "${page}" "</${tag}>" end)
  if(NOT count EQUAL 1 OR begin EQUAL -1 OR end LESS begin)
    message(FATAL_ERROR "${PAGE} must have exactly one <${tag}> element, without attributes")
  endif()
  string(LENGTH "<${tag}>" opening)
  math(EXPR begin "${begin} + ${opening}")
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${page}" ${begin} ${length} content)
  string(SHA256 hex "${content}")
  base64_of(hash ${hex})
  set(${out} "'sha256-${hash}'" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
file(SIZE "${PAGE}" size)
if(size GREATER size_max)
  message(FATAL_ERROR "${PAGE} has ${size} bytes; the limit is ${size_max}")
endif()
source_of(style style)
source_of(script script)
file(SHA256 "${PAGE}" digest)
file(READ "${PAGE}" bytes HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"net/page.hpp\"

namespace orcd::net {
namespace {

constexpr char bytes[] = {${bytes}};

}  // namespace

constinit const page_file embedded_page = {
    {bytes, sizeof bytes},
    \"\\\"${digest}\\\"\",
    \"default-src 'none'; connect-src 'self'; img-src data:; script-src ${script}; \"
    \"style-src ${style}; \"
    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \"
    \"trusted-types 'none'\"};

}  // namespace orcd::net
")
