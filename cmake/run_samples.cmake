# Runs samples in turn, their output live, and saves what they measured; then counts the claims of all of them, draws
# the pages' figures from it, and writes a page to look at, results/index.html, which the last line names.
#   cmake "-DSAMPLES=<executable;...>" -DRESULTS=<folder> -DROOT=<the repository> -DPYTHON=<program or nothing>
#         -DNCU=<program or nothing> [-DCOUNT=ON] [-DADD=ON] -P run_samples.cmake
#   COUNT: counts launches first where that is permitted, so that the parts that rest on counts are judged
#   ADD: runs each sample five times, in processes of their own, and keeps the medians and ranges over the runs in the
#        topics' own results/, beside those of other GPUs; needs PYTHON and a GPU
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/count.cmake)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGV0}: exit code ${code}")
  endif()
endfunction()

function(say line)  # message() would write to standard error
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${line}")
endfunction()

set(runs 5)  # of each sample where its results are added

file(MAKE_DIRECTORY ${RESULTS})
if(ADD)
  list(GET SAMPLES 0 SAMPLE)
  find_gpu(gpu)
  if(NOT gpu)
    message(FATAL_ERROR "no usable GPU, and so no results to add")
  endif()
  list(LENGTH SAMPLES count)
  math(EXPR minutes "(${count} * ${runs} * 20 + 59) / 60")  # a run of one sample takes at most 20 s
  say("${count} samples, ${runs} runs of each: about ${minutes} minutes, and before them a minute or two to count launches \
where that is permitted")
endif()

# ---- count ----
set(not_counted)
if(COUNT)
  set(CLAIMS_ONLY ON)
  foreach(SAMPLE IN LISTS SAMPLES)
    get_filename_component(topic ${SAMPLE} NAME)
    get_filename_component(SCRATCH ${SAMPLE} DIRECTORY)
    set(SCRATCH ${SCRATCH}/profile)
    judged_by_counts(experiments ${topic})
    if(NOT experiments)
      continue()
    endif()
    list(JOIN experiments ", " experiments)
    say("${topic}: counting launches of ${experiments}")
    count_launches(counted_${topic} reason)
    if(reason)
      string(REGEX REPLACE "^failed: .*" "Nsight Compute failed, and `ctest --preset profile` shows how" not_counted
             "${reason}")
      break()  # the machine's reason, and so that of every sample
    endif()
    if(counted_${topic})
      say("${topic}: counted in ${counted_${topic}}")
    endif()
  endforeach()
endif()

# ---- measure ----
set(saved)
set(pages)
set(counters_of_topics)
foreach(SAMPLE IN LISTS SAMPLES)
  get_filename_component(topic ${SAMPLE} NAME)
  set(counters)
  if(counted_${topic})
    set(counters --counters ${counted_${topic}})
    list(APPEND counters_of_topics --counters ${topic}=${counted_${topic}})
  endif()
  if(NOT ADD)
    run(${SAMPLE} --csv ${RESULTS}/${topic}.csv ${counters})
  endif()
  list(APPEND saved ${RESULTS}/${topic}.csv)
  list(APPEND pages ${ROOT}/${topic}/README.md)
endforeach()
if(ADD)
  run(${PYTHON} ${ROOT}/tools/runs.py --runs ${runs} --results ${RESULTS} ${counters_of_topics} ${SAMPLES} --
      --require-gpu)
endif()

# ---- sum up ----
if(PYTHON)
  execute_process(COMMAND ${PYTHON} -c "import matplotlib" RESULT_VARIABLE no_matplotlib OUTPUT_QUIET ERROR_QUIET)
  if(no_matplotlib)
    say("no figures: matplotlib is missing: apt-get install python3-matplotlib")
  else()
    run(${PYTHON} ${ROOT}/tools/figures.py --results ${RESULTS} ${pages})
  endif()
  run(${PYTHON} ${ROOT}/tools/summary.py --figure ${RESULTS}/then-and-now.svg ${saved})
  run(${PYTHON} ${ROOT}/tools/summary.py ${saved})
  # before this run is added to the committed ones, beside which the page shows it
  execute_process(COMMAND ${PYTHON} ${ROOT}/tools/report.py -o ${RESULTS}/index.html ${saved}
                  RESULT_VARIABLE code OUTPUT_VARIABLE page OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "tools/report.py: exit code ${code}")
  endif()
else()
  set(page "no summary over all topics and no page to look at: they need Python")
endif()
if(not_counted)
  say("the parts that rest on counts are not judged: ${not_counted}")
endif()
say("all numbers: ${RESULTS}")
if(ADD)
  run(${PYTHON} ${ROOT}/tools/summary.py --add ${saved})
endif()
say("${page}")
