"""run.py WORK TREE FAULTS OUT : plant each fault in a copy and list the claims that notice."""
import subprocess, sys, shutil, os, json, time
work, tree, faults, out = sys.argv[1:5]
root='/tmp/mut17/'+work
shutil.rmtree(root, ignore_errors=True); shutil.copytree(tree+'/src', root+'/src')
F=json.load(open(faults))
child=r'''
import sys
from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works import load_claims
names=sys.argv[2].split(',') if len(sys.argv)>2 and sys.argv[2] else None
seen=[];n=0
for c in load_claims(sys.argv[1]):
    if c.reads or (names and c.id.split('.')[1] not in names): continue
    n+=1
    try:
        v=verdict_of(c,Key("verify"))
        if not v.as_expected: seen.append(c.id.split('.')[1]+':'+'/'.join(f.statement.name[:30] for f in v.findings if not f.as_expected)[:70])
    except Exception as e: seen.append(c.id.split('.')[1]+'!'+type(e).__name__)
print('RESULT',n,seen)
'''
env=dict(os.environ,PYTHONPATH=root+'/src',OMP_NUM_THREADS='1')
with open(out,'a') as o:
    for i,(file,old,new,names) in enumerate(F):
        p=root+'/src/featlearn/'+file; s=open(p).read()
        if s.count(old)<1: o.write(f"{i} MISSING {file}: {old}\n"); o.flush(); continue
        open(p,'w').write(s.replace(old,new,1))
        t=time.time()
        try: r=subprocess.run([ '/work/main/.venv/bin/python','-c',child,work,names],env=env,capture_output=True,text=True,timeout=280)
        except subprocess.TimeoutExpired: o.write(f"{i} TIMEOUT {old} -> {new}\n"); r=None
        open(p,'w').write(s)
        if r:
            res=[l for l in r.stdout.splitlines() if l.startswith('RESULT')]
            o.write(f"{i} [{time.time()-t:.0f}s] {file}: {old[:60]} -> {new[:60]} :: {res[-1] if res else 'CRASH '+r.stderr[-200:]}\n")
        o.flush()
