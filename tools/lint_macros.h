/* For cppcheck only, which doesn't read system headers: the macros of jansson that look like statements. */
#define json_array_foreach(array, index, value) for (index = 0; (value = json_array_get(array, index)); index++)
#define json_object_foreach(object, key, value) \
    for (key = json_first(object); (value = json_object_get(object, key)); key = json_next(object))
