#pragma once
// Ordinary contractions of dense arrays, of the families of the literature.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "tessera/index/index_vector.hpp"

namespace tessera::bench {

struct ContractionCase {
    const char *family, *spec, *extents;
};

// What is contracted in the literature: tensor times matrix (machine learning, Tucker), the four-index transform, CCSD
// and its (T), density fitting, sums into small results, products with a small sum, batches.
inline constexpr std::array kContractionCases = {
    ContractionCase{"matrix", "ik,kj->ij", "i=1000,j=1000,k=1000"},
    ContractionCase{"matrix", "ki,kj->ij", "i=600,j=600,k=2000"},
    ContractionCase{"matrix", "ik,jk->ji", "i=1500,j=300,k=700"},
    ContractionCase{"ttm", "bda,dc->abc", "a=160,b=160,c=160,d=160"},
    ContractionCase{"ttm", "dca,bd->abc", "a=160,b=160,c=160,d=160"},
    ContractionCase{"ttm", "dbea,ec->abcd", "a=40,b=40,c=48,d=40,e=48"},
    ContractionCase{"ttm", "deca,be->abcd", "a=40,b=48,c=40,d=40,e=48"},
    ContractionCase{"ttm", "ebad,ce->abcd", "a=40,b=40,c=48,d=40,e=48"},
    ContractionCase{"ttm", "efbad,cf->abcde", "a=20,b=20,c=24,d=20,e=20,f=24"},
    ContractionCase{"ttm", "ecbfa,fd->abcde", "a=20,b=20,c=20,d=24,e=20,f=24"},
    ContractionCase{"ttm", "efcad,bf->abcde", "a=20,b=24,c=20,d=20,e=20,f=24"},
    ContractionCase{"ttm", "ijk,kl->ijl", "i=300,j=300,k=32,l=32"},
    ContractionCase{"ttm", "ijk,il->ljk", "i=32,j=300,k=300,l=32"},
    ContractionCase{"transform", "pqrs,pi->iqrs", "p=50,q=50,r=48,s=48,i=40"},
    ContractionCase{"transform", "pqrs,qi->pirs", "p=50,q=50,r=48,s=48,i=40"},
    ContractionCase{"transform", "pqrs,ri->pqis", "p=48,q=48,r=50,s=50,i=40"},
    ContractionCase{"transform", "pqrs,si->pqri", "p=48,q=48,r=50,s=50,i=40"},
    ContractionCase{"transform", "Lpq,qi->Lpi", "L=300,p=120,q=120,i=30"},
    ContractionCase{"ccsd", "acd,db->abc", "a=200,b=160,c=150,d=160"},
    ContractionCase{"ccsd", "ad,bdc->abc", "a=200,b=160,c=150,d=160"},
    ContractionCase{"ccsd", "adc,bd->abc", "a=200,b=160,c=150,d=160"},
    ContractionCase{"ccsd", "adec,ebd->abc", "a=90,b=90,c=90,d=60,e=10"},
    ContractionCase{"ccsd", "aebf,dfce->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "aebf,fdec->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "aecf,bfde->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "aedf,fbec->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "aefb,fdce->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "eafc,bfde->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "eafd,fbec->abcd", "a=30,b=30,c=30,d=30,e=30,f=30"},
    ContractionCase{"ccsd", "ijcd,cdab->ijab", "i=14,j=14,a=50,b=50,c=50,d=50"},
    ContractionCase{"ccsd", "klij,klab->ijab", "i=14,j=14,k=14,l=14,a=80,b=80"},
    ContractionCase{"ccsd", "ikac,kcjb->ijab", "i=14,j=14,k=14,a=60,b=60,c=60"},
    ContractionCase{"triples", "dega,gfbc->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    ContractionCase{"triples", "degb,gfac->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    ContractionCase{"triples", "dfgc,geab->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    ContractionCase{"triples", "efga,gdbc->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    ContractionCase{"triples", "efgc,gdab->abcdef", "a=12,b=14,c=12,d=14,e=12,f=14,g=16"},
    ContractionCase{"small", "acd,dbc->ab", "a=60,b=60,c=300,d=300"},
    ContractionCase{"small", "cad,dcb->ab", "a=60,b=60,c=300,d=300"},
    ContractionCase{"small", "abcd,ebcd->ae", "a=40,b=40,c=50,d=50,e=40"},
    ContractionCase{"small", "abci,abcj->ij", "a=50,b=50,c=40,i=40,j=40"},
    ContractionCase{"small", "iabc,jbca->ij", "i=24,j=24,a=50,b=50,c=50"},
    ContractionCase{"small", "ijab,ijab->", "i=30,j=30,a=70,b=70"},
    ContractionCase{"fitting", "Pij,Pkl->ijkl", "P=200,i=40,j=40,k=50,l=50"},
    ContractionCase{"fitting", "ijP,klP->ikjl", "P=200,i=40,j=40,k=50,l=50"},
    ContractionCase{"fitting", "Pij,Pjk->ik", "P=300,i=120,j=120,k=120"},
    ContractionCase{"outer", "ai,bj->aibj", "a=60,i=30,b=60,j=30"},
    ContractionCase{"outer", "ai,bj->abij", "a=60,i=30,b=60,j=30"},
    ContractionCase{"outer", "abi,icd->abcd", "a=48,b=48,c=48,d=48,i=6"},
    ContractionCase{"batch", "bij,bjk->bik", "b=200,i=120,j=120,k=120"},
    ContractionCase{"batch", "ijb,jkb->ikb", "b=64,i=90,j=90,k=90"},
    ContractionCase{"batch", "xab,xbc->xac", "x=4000,a=16,b=16,c=16"},
};

using LabelExtents = std::map<char, std::int64_t>;

inline LabelExtents parse_extents(const char* text) {
    LabelExtents out;
    for (const char* at = text; *at;) {
        const char label = *at;
        char* end = nullptr;
        out[label] = std::strtoll(at + 2, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return out;
}

inline IndexVector extents_of(const std::string& labels, const LabelExtents& all) {
    IndexVector out;
    for (const char l : labels) out.push_back(all.at(l));
    return out;
}

}  // namespace tessera::bench
