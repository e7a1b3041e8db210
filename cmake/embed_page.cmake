# Puts the files of the page together and turns the result into a C++ source.
# Usage: cmake -DFILES=page.html;page.css;SCRIPT.js... -DMARKED=FILE -DHTML=FILE -DOUTPUT=FILE
#   -P embed_page.cmake
# An empty MARKED leaves that library out. The policy allows exactly the page's own style and scripts, by the
# SHA-256 of what stands between their tags.
cmake_minimum_required(VERSION 3.25)
set(size_max 163840)

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

# fill(TAG MARK CONTENT HASH): puts CONTENT in place of the one <TAG>/* MARK */</TAG> of the page; HASH
# becomes its source in the policy.
function(fill tag mark content hash)
  set(place "<${tag}>/* ${mark} */</${tag}>")
  string(FIND "${page}" "${place}" first)
  string(FIND "${page}" "${place}" last REVERSE)
  string(FIND "${content}" "</${tag}" closed)
  if(first EQUAL -1 OR NOT first EQUAL last OR NOT closed EQUAL -1)
    message(FATAL_ERROR "the page must have ${place} once, and what is put there must not end it")
  endif()
  string(REPLACE "${place}" "<${tag}>${content}</${tag}>" page "${page}")
  string(SHA256 hex "${content}")
  base64_of(digest ${hex})
  set(${hash} "'sha256-${digest}'" PARENT_SCOPE)
  set(page "${page}" PARENT_SCOPE)
endfunction()

list(POP_FRONT FILES html css)
file(READ "${html}" page)
file(READ "${css}" text)
fill(style page.css "${text}" style)
set(marked "/* marked */")
if(MARKED)
  file(READ "${MARKED}" marked)
endif()
fill(script marked "${marked}" library)
set(text "")
foreach(file IN LISTS FILES)
  file(READ "${file}" part)
  string(APPEND text "${part}")
endforeach()
fill(script page.js "${text}" script)
file(WRITE "${HTML}" "${page}")
file(SIZE "${HTML}" size)
if(size GREATER size_max)
  message(FATAL_ERROR "the page has ${size} bytes; the limit is ${size_max}")
endif()
file(SHA256 "${HTML}" digest)
file(READ "${HTML}" bytes HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"net/http/page.hpp\"

namespace orcd::net {
namespace {

constexpr char bytes[] = {${bytes}};

}  // namespace

constinit const page_file embedded_page = {
    {bytes, sizeof bytes},
    \"\\\"${digest}\\\"\",
    \"default-src 'none'; connect-src 'self'; img-src data:; script-src ${library} ${script}; \"
    \"style-src ${style}; \"
    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \"
    \"trusted-types 'none'\"};

}  // namespace orcd::net
")
