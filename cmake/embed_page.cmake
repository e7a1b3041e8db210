# Puts the files of the page together and turns the result into a C++ source.
# Usage: cmake -DFILES=page.html;STYLE.css;...;SCRIPT.js;... -DREADER=SCRIPT.js;...
#   -DSHEET=FILE.css;FONT.woff2;... -DHTML=FILE -DOUTPUT=FILE -P embed_page.cmake
# READER are the scripts of the Worker that reads Markdown, data to the page itself; none: there is no Worker.
# highlight.js and those in its folder languages/, which it learns by their names, are modules of Node.
# SHEET is KaTeX's style sheet with its fonts, data until there is a formula; none: there are no formulas.
# The policy allows exactly the page's own style and script, by the SHA-256 of what stands between their tags,
# and a Worker made by that script, from an address that its one Trusted Types policy gives; and fonts that
# are a part of a sheet.
cmake_minimum_required(VERSION 3.25)
set(size_max 1250000)  # what of it a browser gets compressed has a limit of its own, in the page's tests

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

# fill(TAG MARK CONTENT HASH): puts CONTENT in place of the one /* MARK */</TAG> of the page; HASH becomes its
# source in the policy.
function(fill tag mark content hash)
  set(place ">/* ${mark} */</${tag}>")
  string(FIND "${page}" "${place}" first)
  string(FIND "${page}" "${place}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "the page must have ${place} once")
  endif()
  string(TOLOWER "${content}" lower)
  # Behind <!-- even the beginning of a script would count.
  if(lower MATCHES "</${tag}" OR lower MATCHES "<script[ \t\r\n/>]")
    message(FATAL_ERROR "what is put into ${place} must not end it: ${CMAKE_MATCH_0}")
  endif()
  string(REPLACE "${place}" ">${content}</${tag}>" page "${page}")
  string(SHA256 hex "${content}")
  base64_of(digest ${hex})
  set(${hash} "'sha256-${digest}'" PARENT_SCOPE)
  set(page "${page}" PARENT_SCOPE)
endfunction()

# read_files(OUT FILE...): what is in them, one after the other; modules made scripts that need none.
function(read_files out)
  set(all "")
  foreach(file IN LISTS ARGN)
    read_file(text "${file}")
    string(APPEND all "${text}")
  endforeach()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

function(read_file out file)
  file(READ "${file}" text)
  if(file MATCHES "/languages/([^/]+)[.]js$")
    string(APPEND text "\nhljs.registerLanguage('${CMAKE_MATCH_1}', module.exports);")
  endif()
  if(file MATCHES "/(highlight|languages/[^/]+)[.]js$")
    set(text "(module => {\n${text}\n})({});\n")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# read_sheet(OUT SHEET FONT...): the sheet with these fonts, each as the one source of its family and shape.
function(read_sheet out sheet)
  file(READ "${sheet}" text)
  foreach(font IN LISTS ARGN)
    get_filename_component(name "${font}" NAME)
    execute_process(COMMAND base64 -w0 "${font}" OUTPUT_VARIABLE bytes COMMAND_ERROR_IS_FATAL ANY)
    set(url "url(data:font/woff2;base64,${bytes})")
    string(REGEX REPLACE "url\\(fonts/${name}\\)([^;}]*)" "${url} format('woff2')" text "${text}")
  endforeach()
  if(text MATCHES "url\\(fonts/([^)]*)")
    message(FATAL_ERROR "the sheet has a font that is not given: ${CMAKE_MATCH_1}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

set(styles "${FILES}")
list(POP_FRONT styles html)
set(scripts "${styles}")
list(FILTER styles INCLUDE REGEX "[.]css$")
list(FILTER scripts INCLUDE REGEX "[.]js$")
file(READ "${html}" page)
read_files(text ${styles})
fill(style page.css "${text}" style)
set(text "")
if(SHEET)
  read_sheet(text ${SHEET})
endif()
fill(script formula-sheet "${text}" script)
read_files(text ${READER})
fill(script reader "${text}" script)
read_files(text ${scripts})
fill(script page.js "${text}" script)
file(WRITE "${HTML}" "${page}")
file(SIZE "${HTML}" size)
if(size GREATER size_max)
  message(FATAL_ERROR "the page has ${size} bytes; the limit is ${size_max}")
endif()
file(SHA256 "${HTML}" digest)
file(READ "${HTML}" bytes HEX)
string(REGEX REPLACE "(................................................)" "\\1\"\n\"" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"net/http/page.hpp\"

namespace orcd::net {
namespace {

constexpr char bytes[] =
\"${bytes}\";

}  // namespace

constinit const page_file embedded_page = {
    {bytes, sizeof bytes - 1},
    \"\\\"${digest}\\\"\",
    \"default-src 'none'; connect-src 'self'; img-src data:; font-src data:; script-src ${script}; \"
    \"worker-src blob:; style-src ${style}; \"
    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \"
    \"trusted-types reader\"};

}  // namespace orcd::net
")
