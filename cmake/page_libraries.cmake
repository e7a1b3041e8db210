# The libraries by which the page at / shows answers, of Debian's packages. What is missing is left out, which
# is said: without marked answers are plain text, without the others formulas are their source and programs
# have no colours.
# Sets ORCD_PAGE_READER, scripts for the Worker that reads answers, and ORCD_PAGE_SHEET, a style sheet and its
# fonts; ORCD_PAGE_LIBRARIES has one file of each package, for the list of parts.
find_file(ORCD_MARKED marked.min.js PATHS /usr/share/javascript/marked NO_DEFAULT_PATH
          DOC "marked 4.x of Debian's libjs-marked, for the page at /")
find_file(ORCD_KATEX katex.js PATHS /usr/share/javascript/katex NO_DEFAULT_PATH
          DOC "KaTeX 0.16 of Debian's libjs-katex, for formulas on the page at /")
find_path(ORCD_KATEX_FONTS KaTeX_Main-Regular.woff2 PATHS /usr/share/fonts/truetype/katex NO_DEFAULT_PATH
          DOC "the fonts of Debian's fonts-katex, for formulas on the page at /")
find_file(ORCD_HIGHLIGHT highlight.js PATHS /usr/share/nodejs/highlight.js/lib NO_DEFAULT_PATH
          DOC "highlight.js 9.x of Debian's node-highlight.js, for programs on the page at /")
# The languages of which programs have colours; those that others build on come first.
set(page_languages xml css javascript typescript json yaml ini markdown bash shell powershell dockerfile
    makefile cmake diff python java kotlin scala groovy cpp cs go rust swift objectivec ruby perl php
    lua r julia haskell elixir erlang clojure lisp ocaml dart matlab fortran sql pgsql protobuf nginx
    http tex scss less vim x86asm armasm llvm verilog vhdl)

set(ORCD_PAGE_READER "")
set(ORCD_PAGE_SHEET "")
set(ORCD_PAGE_LIBRARIES "")
if(NOT ORCD_MARKED)
  message(STATUS "the page at / shows answers as plain text: libjs-marked is not installed")
else()
  list(APPEND ORCD_PAGE_READER ${ORCD_MARKED})
  list(APPEND ORCD_PAGE_LIBRARIES ${ORCD_MARKED})
  if(ORCD_HIGHLIGHT)
    list(APPEND ORCD_PAGE_READER ${ORCD_HIGHLIGHT})
    list(APPEND ORCD_PAGE_LIBRARIES ${ORCD_HIGHLIGHT})
    get_filename_component(folder ${ORCD_HIGHLIGHT} DIRECTORY)
    foreach(name ${page_languages})
      if(EXISTS ${folder}/languages/${name}.js)
        list(APPEND ORCD_PAGE_READER ${folder}/languages/${name}.js)
      endif()
    endforeach()
  else()
    message(STATUS "programs on the page at / have no colours: node-highlight.js is not installed")
  endif()
  if(ORCD_KATEX AND ORCD_KATEX_FONTS)
    list(APPEND ORCD_PAGE_READER ${ORCD_KATEX})
    get_filename_component(folder ${ORCD_KATEX} DIRECTORY)
    file(GLOB fonts ${ORCD_KATEX_FONTS}/KaTeX_*.woff2)
    set(ORCD_PAGE_SHEET ${folder}/katex.min.css ${fonts})
    list(APPEND ORCD_PAGE_LIBRARIES ${ORCD_KATEX} ${ORCD_KATEX_FONTS}/KaTeX_Main-Regular.woff2)
  else()
    message(STATUS "formulas on the page at / are shown as their source: libjs-katex is not installed")
  endif()
endif()
set(ORCD_PAGE_LIBRARIES "${ORCD_PAGE_LIBRARIES}" CACHE INTERNAL "")
