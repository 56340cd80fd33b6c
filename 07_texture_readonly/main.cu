#include "../common/run.hpp"

void read_only(Run&);
void dimensions(Run&);
void sampling(Run&);
void locality(Run&);
void texture_unit(Run&);
void objects(Run&);

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"07_texture_readonly",
       "textures and the read-only path: what they do, and what they still gain",
       {
           {"read_only", read_only, "three ways to say that memory is only read"},
           {"dimensions", dimensions, "seven kinds of texture, each made and read back"},
           {"sampling", sampling, "every address mode with every filter, against a reference"},
           {"locality", locality, "rows, columns, patches: textures against plain loads"},
           {"texture_unit", texture_unit,
            "interpolation, fractions of bytes, 3D: fetches and loads"},
           {"objects", objects, "what a texture object costs to make, to pass and to read"},
       }});
}
